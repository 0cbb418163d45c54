package tidegate;

import java.util.ArrayList;
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
 * expression that exhausts the stack, or a text of two gigabytes, would end the Java process.
 */
public class CatchingExpression extends TryEval {
  public CatchingExpression(Expression child) {
    super(child);
  }

  public Object eval(InternalRow row) {
    try {
      return child().eval(row);
    } catch (Throwable failure) {
      return null;
    }
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    try {
      ExprCode code = super.doGenCode(context, result);
      return new ExprCode(catchingAll((CodeBlock) code.code()), code.isNull(), code.value());
    } catch (Throwable failure) {
      return ExprCode.forNullValue(dataType());
    }
  }

  private static Block catchingAll(CodeBlock code) {
    ArrayList parts = new ArrayList();
    for (Iterator each = code.codeParts().iterator(); each.hasNext(); ) {
      parts.add(((String) each.next()).replace("catch (Exception ", "catch (Throwable "));
    }
    return new CodeBlock(
        scala.jdk.javaapi.CollectionConverters.asScala((java.util.List) parts).toSeq(), code.blockInputs());
  }

  public Expression withNewChildInternal(Expression child) {
    return new CatchingExpression(child);
  }
}
