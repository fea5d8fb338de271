import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.beam.runners.core.DoFnRunner;
import org.apache.beam.runners.core.construction.SerializablePipelineOptions;
import org.apache.beam.runners.flink.translation.wrappers.streaming.stableinput.BufferingDoFnRunner;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.apache.beam.sdk.transforms.windowing.PaneInfo;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.values.WindowedValue;
import org.apache.beam.sdk.values.WindowedValues;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.state.DefaultOperatorStateBackendBuilder;
import org.apache.flink.runtime.state.OperatorStateBackend;
import org.joda.time.Instant;

/** What Beam's runner for Flink says of the watermark while elements wait for a checkpoint: a line for each step. */
public class Holds {
  private static final List<String> HANDED_ON = new ArrayList<>();

  public static void main(String[] arguments) throws Exception {
    OperatorStateBackend state =
        new DefaultOperatorStateBackendBuilder(
                Holds.class.getClassLoader(), new ExecutionConfig(), false, Collections.emptyList(), new CloseableRegistry())
            .build();
    BufferingDoFnRunner<String, String> runner = runner(state);
    tell("nothing waits", runner);
    add(runner, "a", 1000);
    tell("a waits", runner);
    runner.checkpoint(1);
    add(runner, "b", 2000);
    runner.checkpointCompleted(1);
    tell("b came during the checkpoint of a", runner);
    runner.checkpoint(2);
    runner.checkpointCompleted(2);
    tell("nothing waits", runner);
    runner.setInputWatermark(() -> 2500);
    add(runner, "c", 3000);
    tell("c waits, which came when the watermark was 2500", runner);
    runner.checkpoint(3);
    BufferingDoFnRunner<String, String> restored = runner(state);
    tell("restored with c", restored);
    restored.checkpoint(4);
    add(restored, "d", 4000);
    restored.checkpointCompleted(4);
    tell("d came during the checkpoint after it", restored);
  }

  private static void tell(String when, BufferingDoFnRunner<String, String> runner) {
    long hold = runner.getOutputWatermarkHold();
    System.out.println(when + ": " + (hold == Long.MAX_VALUE ? "no hold" : hold) + " " + HANDED_ON);
  }

  private static void add(BufferingDoFnRunner<String, String> runner, String element, long time) {
    runner.processElement(
        WindowedValues.of(element, new Instant(time), GlobalWindow.INSTANCE, PaneInfo.NO_FIRING));
  }

  private static BufferingDoFnRunner<String, String> runner(OperatorStateBackend state) throws Exception {
    return BufferingDoFnRunner.create(
        new Next(),
        "buffer",
        WindowedValues.getFullCoder(StringUtf8Coder.of(), GlobalWindow.Coder.INSTANCE),
        GlobalWindow.Coder.INSTANCE,
        state,
        null,
        1,
        new SerializablePipelineOptions(PipelineOptionsFactory.create()));
  }

  /** What comes after the buffer. */
  private static class Next implements DoFnRunner<String, String> {
    @Override
    public void startBundle() {}

    @Override
    public void processElement(WindowedValue<String> element) {
      HANDED_ON.add(element.getValue());
    }

    @Override
    public <K> void onTimer(
        String id, String family, K key, BoundedWindow window, Instant time, Instant output, TimeDomain domain) {}

    @Override
    public void finishBundle() {}

    @Override
    public <K> void onWindowExpiration(BoundedWindow window, Instant time, K key) {}

    @Override
    public DoFn<String, String> getFn() {
      return null;
    }
  }
}
