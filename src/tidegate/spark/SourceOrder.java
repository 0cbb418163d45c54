package tidegate;

import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import scala.collection.immutable.VectorMap;
import scala.collection.immutable.VectorMap$;

/**
 * Makes a query ask its sources for their latest offsets in a given order. Spark asks in the order of a map, which is
 * the order of the plan up to four sources, and any order beyond. The event comes in the thread of the query, before
 * its first micro-batch: so the sources can be created here, and the map replaced by one that keeps the order.
 */
public class SourceOrder extends StreamingQueryListener {
  private SparkSession session;
  private String name;
  private List order;
  private Throwable failure;

  public void prepare(SparkSession session, String name, List order) {
    this.session = session;
    this.name = name;
    this.order = order;
    this.failure = new IllegalStateException("query " + name + " has not started");
  }

  /** What kept the order from being set, or null. */
  public Throwable failure() {
    return failure;
  }

  public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
    if (name.equals(event.name())) {
      try {
        org.apache.spark.sql.classic.SparkSession.setActiveSession(session);
        reorder(((StreamingQueryWrapper) (Object) session.streams().get(event.id())).streamingQuery());
        failure = null;
      } catch (Throwable problem) {
        failure = problem;
      }
    }
  }

  private void reorder(StreamExecution query) {
    query.logicalPlan();
    scala.collection.immutable.Map limits = query.uniqueSources();
    VectorMap ordered = VectorMap$.MODULE$.empty();
    for (Object position : order) {
      Object source = query.sources().apply(((Integer) position).intValue());
      ordered = ordered.updated(source, limits.apply(source));
    }
    if (order.size() != limits.size() || ordered.size() != limits.size()) {
      throw new IllegalStateException(limits.size() + " sources, but an order of " + order.size());
    }
    query.uniqueSources_$eq(ordered);
  }

  public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {}

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {}
}
