package org.apache.flink.client.program.rest.retry;

/**
 * In place of Flink's class of this name, whose waits grow to two seconds: whoever waits for a job sees its end a second
 * late on average. These grow to a tenth of the longest.
 */
public class ExponentialWaitStrategy implements WaitStrategy {
  private final long first;
  private final long longest;

  public ExponentialWaitStrategy(long initialWait, long maxWait) {
    first = initialWait;
    longest = maxWait / 10;
  }

  @Override
  public long sleepTime(long attempt) {
    return Math.min(first << Math.min(attempt, 20), longest);
  }
}
