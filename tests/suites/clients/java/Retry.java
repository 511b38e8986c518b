import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.ClientInterceptor;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * An operation over grpc-java: one key, gRPC's own retries by a service config, and the verdict on the answer. To use it, copy this
 * file and {@code verdicts.json}, and read that: {@code new Gson().fromJson(text, Retry.class)}.
 */
public final class Retry {
  private static final List<String> VERDICTS = List.of("only", "after_lost");
  private String domain;
  private List<Map<String, Object>> rows;

  /** The operation may have taken effect. Repeat the call later, with the same key; docs/client.md has what each verdict means. */
  public static final class Unresolved extends RuntimeException {
    public final String verdict;

    Unresolved(String key, String verdict, Throwable cause) {
      super("the outcome is not known (" + verdict + "); the key is " + key, cause);
      this.verdict = verdict;
    }
  }

  /** Makes a call, on a stub with this interceptor. Throws the error that ended the operation, or {@link Unresolved}. */
  public <R> R create(String key, Function<ClientInterceptor, R> call) {
    Metadata metadata = new Metadata();
    metadata.put(named("idempotency-key"), key);
    try {
      return call.apply(MetadataUtils.newAttachHeadersInterceptor(metadata));
    } catch (StatusRuntimeException error) {
      String said = verdict(error);
      throw said.equals("ended") ? error : new Unresolved(key, said, error);
    }
  }

  /** The verdict on an error: that after a lost attempt, since gRPC does not tell of those that it repeated. */
  public String verdict(StatusRuntimeException error) {
    Map<String, Object> said = facts(error);
    Predicate<Map<String, Object>> fits =
        row -> row.keySet().stream().allMatch(fact -> VERDICTS.contains(fact) || row.get(fact).equals(said.get(fact)));
    return (String) rows.stream().filter(fits).findFirst().orElseThrow().get("after_lost");
  }

  /** The facts of an error that a row can ask for. */
  private Map<String, Object> facts(StatusRuntimeException error) {
    Metadata trailers = error.getTrailers() == null ? new Metadata() : error.getTrailers();
    String pushback = trailers.get(named("grpc-retry-pushback-ms"));
    Map<String, Object> said = new HashMap<>();
    said.put("code", error.getStatus().getCode().name());
    said.put("outcome", trailers.get(named("idempotency-outcome")));
    said.put("pushback", pushback == null || pushback.matches("\\d+") ? null : "never");
    Status status = StatusProto.fromThrowable(error);
    try {
      for (Any detail : status == null ? List.<Any>of() : status.getDetailsList()) {
        said.putIfAbsent("retry_info", detail.is(RetryInfo.class) ? true : null);
        ErrorInfo info = detail.is(ErrorInfo.class) ? detail.unpack(ErrorInfo.class) : ErrorInfo.getDefaultInstance();
        said.putIfAbsent("reason", info.getDomain().equals(domain) ? info.getReason() : null);
      }
    } catch (InvalidProtocolBufferException malformed) {
      said.put("reason", null);
    }
    return said;
  }

  private static Metadata.Key<String> named(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }
}
