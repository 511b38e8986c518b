import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.util.JsonFormat;
import io.grpc.CallOptions;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The driver of grpc-java: {@code java -Dverdicts=FILE Driver ADDRESS DESCRIPTORS SERVICE_CONFIG}.
 *
 * <p>Reads one call per line from standard input, makes it, and writes one line with the reply that the client saw. Calls run
 * concurrently; a reply has the id of its call. The driver does not know the expected replies.
 *
 * <p>Messages are dynamic: the descriptors come from the file, so that no generated code has to follow changes of the service.
 */
public final class Driver {
  private static final Metadata.Key<String> KEY = Metadata.Key.of("idempotency-key", Metadata.ASCII_STRING_MARSHALLER);

  private final ManagedChannel channel;
  private final Map<String, FileDescriptor> files;

  private final Retry retry;

  private Driver(ManagedChannel channel, Map<String, FileDescriptor> files, Retry retry) {
    this.channel = channel;
    this.files = files;
    this.retry = retry;
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, ?> config = new Gson().<Map<String, ?>>fromJson(Files.readString(Path.of(arguments[2])), Map.class);
    URI address = URI.create("grpc://" + arguments[0]);
    ManagedChannel channel =
        NettyChannelBuilder.forAddress(address.getHost(), address.getPort())
            .usePlaintext()
            .defaultServiceConfig(config)
            .enableRetry()
            .build();
    Retry retry = new Gson().fromJson(Files.readString(Path.of(System.getProperty("verdicts"))), Retry.class);
    Driver driver = new Driver(channel, read(Path.of(arguments[1])), retry);
    ExecutorService calls = Executors.newCachedThreadPool();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonObject call = JsonParser.parseString(line).getAsJsonObject();
      calls.submit(() -> answer(driver, call));
    }
    calls.shutdown();
    calls.awaitTermination(1, TimeUnit.HOURS);
    channel.shutdownNow();
  }

  private static void answer(Driver driver, JsonObject call) {
    JsonObject reply = new JsonObject();
    try {
      reply = driver.call(call);
    } catch (Exception error) {
      reply.addProperty("failure", error.toString());
    }
    reply.add("id", call.get("id"));
    synchronized (System.out) {
      System.out.println(reply);
    }
  }

  private JsonObject call(JsonObject call) throws IOException {
    String path = call.get("procedure").getAsString();
    String[] names = path.split("/");
    com.google.protobuf.Descriptors.MethodDescriptor procedure = procedure(names[0], names[1]);
    DynamicMessage.Builder request = DynamicMessage.newBuilder(procedure.getInputType());
    JsonFormat.parser().merge(call.get("message").toString(), request);
    MethodDescriptor<DynamicMessage, DynamicMessage> method =
        MethodDescriptor.<DynamicMessage, DynamicMessage>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName(path)
            .setRequestMarshaller(marshaller(procedure.getInputType()))
            .setResponseMarshaller(marshaller(procedure.getOutputType()))
            .build();

    AtomicReference<Metadata> headers = new AtomicReference<>();
    AtomicReference<Metadata> trailers = new AtomicReference<>();
    ClientInterceptor capture = MetadataUtils.newCaptureMetadataInterceptor(headers, trailers);
    Metadata sent = metadata(call.getAsJsonArray("headers"));
    DynamicMessage message = request.build();
    JsonObject reply = new JsonObject();
    reply.add("details", new JsonArray());
    try {
      DynamicMessage response;
      if (call.get("client").getAsString().equals("Retry.java")) {
        String key = sent.get(KEY);
        sent.removeAll(KEY);
        ClientInterceptor others = MetadataUtils.newAttachHeadersInterceptor(sent);
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(call.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS);
        response = retry.create(key, keyed -> unary(method, options, message, others, keyed, capture));
      } else {
        response = unary(method, CallOptions.DEFAULT, message, MetadataUtils.newAttachHeadersInterceptor(sent), capture);
      }
      reply.addProperty("verdict", "ended");
      reply.addProperty("code", 0);
      reply.addProperty("message", "");
      reply.add("body", JsonParser.parseString(JsonFormat.printer().print(response)));
      reply.add("headers", pairs(headers.get()));
    } catch (StatusRuntimeException error) {
      refused(reply, "ended", error, trailers.get());
    } catch (Retry.Unresolved unresolved) {
      refused(reply, unresolved.verdict, (StatusRuntimeException) unresolved.getCause(), trailers.get());
    }
    return reply;
  }

  private DynamicMessage unary(
      MethodDescriptor<DynamicMessage, DynamicMessage> method,
      CallOptions options,
      DynamicMessage request,
      ClientInterceptor... interceptors) {
    return ClientCalls.blockingUnaryCall(
        ClientInterceptors.intercept(channel, interceptors).newCall(method, options), request);
  }

  private static void refused(JsonObject reply, String verdict, StatusRuntimeException error, Metadata trailers) {
    String message = error.getStatus().getDescription();
    reply.addProperty("verdict", verdict);
    reply.addProperty("code", error.getStatus().getCode().value());
    reply.addProperty("message", message == null ? "" : message);
    reply.add("headers", pairs(trailers));
  }

  private com.google.protobuf.Descriptors.MethodDescriptor procedure(String service, String method) {
    for (FileDescriptor file : files.values()) {
      for (com.google.protobuf.Descriptors.ServiceDescriptor found : file.getServices()) {
        if (found.getFullName().equals(service)) {
          return found.findMethodByName(method);
        }
      }
    }
    throw new IllegalArgumentException(service + " is not in the descriptors");
  }

  private static MethodDescriptor.Marshaller<DynamicMessage> marshaller(Descriptor type) {
    return ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(type));
  }

  private static Metadata metadata(JsonArray headers) {
    Metadata metadata = new Metadata();
    for (JsonElement header : headers) {
      String name = header.getAsJsonArray().get(0).getAsString();
      String value = header.getAsJsonArray().get(1).getAsString();
      metadata.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
    }
    return metadata;
  }

  /** The headers that are texts. */
  private static JsonArray pairs(Metadata metadata) {
    JsonArray pairs = new JsonArray();
    if (metadata == null) {
      return pairs;
    }
    for (String name : metadata.keys()) {
      // The library has the HTTP status of an answer that is not of gRPC as `:status`.
      if (name.endsWith(Metadata.BINARY_HEADER_SUFFIX) || name.startsWith(":")) {
        continue;
      }
      for (String value : metadata.getAll(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER))) {
        JsonArray pair = new JsonArray();
        pair.add(name);
        pair.add(value);
        pairs.add(pair);
      }
    }
    return pairs;
  }

  /** The files of a descriptor set, in which each file comes after its imports. */
  private static Map<String, FileDescriptor> read(Path set) throws Exception {
    Map<String, FileDescriptor> files = new HashMap<>();
    for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Files.readAllBytes(set)).getFileList()) {
      FileDescriptor[] imports = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
      files.put(file.getName(), FileDescriptor.buildFrom(file, imports));
    }
    return files;
  }
}
