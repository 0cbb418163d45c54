package tidegate;

import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;
import java.util.function.ObjLongConsumer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import scala.collection.Iterator;

/**
 * NULL where an expression fails. Spark's TryEval, from which this derives, catches exceptions only: a regular
 * expression that exhausts the stack, or a text of two gigabytes, would end the Java process. One that backtracks
 * forever would never end: a row that has taken five seconds of CPU time fails, too.
 */
public class CatchingExpression extends TryEval {
  public CatchingExpression(Expression child) {
    super(child);
  }

  public Object eval(InternalRow row) {
    Row current = Row.current();
    long level = current.begin();
    try {
      Object value = child().eval(row);
      current.end(level);
      return value;
    } catch (Throwable failure) {
      current.fail(failure, level);
      return null;
    }
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    try {
      ExprCode code = super.doGenCode(context, result);
      // Generated code sees the classes of Spark and of Java only, so it calls objects of ours by types of Java.
      String begin = context.addReferenceObj("begin", new Begin(), "java.util.function.LongSupplier");
      String end = context.addReferenceObj("end", new End(), "java.util.function.LongConsumer");
      String fail = context.addReferenceObj("fail", new Fail(), "java.util.function.ObjLongConsumer");
      String level = context.freshName("level");
      return new ExprCode(
          catchingAll((CodeBlock) code.code(), begin, end, fail, level), code.isNull(), code.value());
    } catch (Throwable failure) {
      return ExprCode.forNullValue(dataType());
    }
  }

  private static Block catchingAll(CodeBlock code, String begin, String end, String fail, String level) {
    ArrayList parts = new ArrayList();
    boolean first = true;
    for (Iterator each = code.codeParts().iterator(); each.hasNext(); ) {
      String part = (String) each.next();
      if (first && part.contains("try {")) {
        part = part.replace("try {", "long " + level + " = " + begin + ".getAsLong(); try {");
        first = false;
      }
      parts.add(part.replaceAll(
          "\\} catch \\(Exception (\\w+)\\) \\{",
          java.util.regex.Matcher.quoteReplacement(end + ".accept(" + level + "); } catch (Throwable ") + "$1"
              + java.util.regex.Matcher.quoteReplacement(") { " + fail + ".accept(") + "$1"
              + java.util.regex.Matcher.quoteReplacement(", " + level + ");")));
    }
    return new CodeBlock(
        scala.jdk.javaapi.CollectionConverters.asScala((java.util.List) parts).toSeq(), code.blockInputs());
  }

  public Expression withNewChildInternal(Expression child) {
    return new CatchingExpression(child);
  }

  public static class Begin implements LongSupplier, Serializable {
    public long getAsLong() {
      return Row.current().begin();
    }
  }

  public static class End implements LongConsumer, Serializable {
    public void accept(long level) {
      Row.current().end(level);
    }
  }

  public static class Fail implements ObjLongConsumer, Serializable {
    public void accept(Object failure, long level) {
      Row.current().fail((Throwable) failure, level);
    }
  }

  /**
   * The row that a thread computes. A watchdog stops the thread inside of a row that takes too long: ThreadDeath is
   * then thrown in the middle of it, and caught as any other failure. A thread that is being stopped does not leave the
   * row before. Threads can be stopped up to Java 19; with a later one such a row is computed until its end.
   *
   * The state is the number of the row, times four, and one of the three constants. An expression may contain others
   * that catch: the outermost is level 0.
   */
  public static class Row {
    private static final long SECONDS = 5;
    private static final long LOOK_MILLIS = 250;
    private static final long DEATH_MILLIS = 5000;
    private static final int IDLE = 0;
    private static final int RUNNING = 1;
    private static final int STOPPING = 2;
    private static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();
    private static final Set ALL = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap()));
    private static final ThreadLocal CURRENT = new ThreadLocal();

    private static Thread watchdog;

    private final Thread thread = Thread.currentThread();
    private final AtomicLong state = new AtomicLong(IDLE);
    private long number;
    private long depth;
    private long seenState;
    private long seenCpu;

    public static Row current() {
      Row row = (Row) CURRENT.get();
      if (row == null) {
        row = new Row();
        CURRENT.set(row);
        ALL.add(row);
        watch();
      }
      return row;
    }

    public long begin() {
      long level = depth;
      depth = level + 1;
      if (level == 0) {
        run();
      }
      return level;
    }

    public void end(long level) {
      depth = level;
      if (level == 0 && !leave()) {
        awaitDeath();
      }
    }

    public void fail(Throwable failure, long level) {
      boolean stopped = failure instanceof ThreadDeath;
      depth = level;
      if (stopped) {
        Thread.interrupted(); // Stopping a thread interrupts it as well.
      }
      if (level > 0) {
        if (stopped) {
          run();
        }
      } else if (!leave() && !stopped) {
        awaitDeath();
      }
      if (level == 0) {
        state.set(IDLE);
      }
    }

    private void run() {
      number++;
      state.lazySet(number * 4 + RUNNING);
    }

    private boolean leave() {
      return state.compareAndSet(number * 4 + RUNNING, IDLE);
    }

    /** Wait for the ThreadDeath of a thread that is being stopped, unless the expression has caught it itself. */
    private void awaitDeath() {
      long until = System.nanoTime() + DEATH_MILLIS * 1000000L;
      boolean interrupted = false;
      try {
        while (System.nanoTime() < until) {
          try {
            Thread.sleep(10);
          } catch (InterruptedException problem) {
            interrupted = true;
          }
        }
      } catch (ThreadDeath death) {
        interrupted = false;
        Thread.interrupted();
      }
      state.set(IDLE);
      if (interrupted) {
        thread.interrupt();
      }
    }

    private static synchronized void watch() {
      if (watchdog == null) {
        watchdog = new Thread(new Watchdog(), "tidegate-rows");
        watchdog.setDaemon(true);
        watchdog.start();
      }
    }

    private void look() {
      long now = state.get();
      if (now % 4 != RUNNING) {
        return;
      }
      long cpu = CPU.getThreadCpuTime(thread.getId());
      if (now != seenState) {
        seenState = now;
        seenCpu = cpu;
      } else if (cpu - seenCpu > SECONDS * 1000000000L && state.compareAndSet(now, now - RUNNING + STOPPING)) {
        try {
          thread.stop();
        } catch (UnsupportedOperationException unsupported) {
          state.compareAndSet(now - RUNNING + STOPPING, now);
          seenCpu = Long.MAX_VALUE / 2;
        }
      }
    }

    private static class Watchdog implements Runnable {
      public void run() {
        while (true) {
          try {
            Thread.sleep(LOOK_MILLIS);
            Object[] rows = ALL.toArray();
            for (int n = 0; n < rows.length; n++) {
              ((Row) rows[n]).look();
            }
          } catch (Throwable problem) {
            // The next look may succeed.
          }
        }
      }
    }
  }
}
