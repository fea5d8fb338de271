package ldp;

import java.util.Collection;
import org.apache.flink.contrib.streaming.state.RocksDBOptionsFactory;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;

/**
 * RocksDB's manifest, a log of which files there were when, is in each checkpoint, and by default begins anew after 1 GB:
 * checkpoints of a stream grew by 2 kB a second, though its state did not.
 */
public class SmallManifest implements RocksDBOptionsFactory {
  @Override
  public DBOptions createDBOptions(DBOptions options, Collection<AutoCloseable> handles) {
    return options.setMaxManifestFileSize(1 << 18);
  }

  @Override
  public ColumnFamilyOptions createColumnOptions(ColumnFamilyOptions options, Collection<AutoCloseable> handles) {
    return options;
  }
}
