package org.apache.beam.sdk.fn.server;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.beam.model.pipeline.v1.Endpoints;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.netty.NettyServerBuilder;

/**
 * In place of Beam's class of this name, whose servers take the port that they are told, but listen on all addresses of
 * the machine. They run what they are sent. These listen on the loopback address only.
 */
public class ServerFactory {
  /** What a server is called, for those who connect to it. */
  public interface UrlFactory {
    String createUrl(String address, int port);
  }

  private final UrlFactory names;
  private final Supplier<Integer> ports;

  private ServerFactory(UrlFactory names, Supplier<Integer> ports) {
    this.names = names;
    this.ports = ports;
  }

  public static ServerFactory createDefault() {
    return createWithPortSupplier(() -> 0);
  }

  public static ServerFactory createWithPortSupplier(Supplier<Integer> ports) {
    return createWithUrlFactoryAndPortSupplier((address, port) -> address + ":" + port, ports);
  }

  public static ServerFactory createWithUrlFactory(UrlFactory names) {
    return createWithUrlFactoryAndPortSupplier(names, () -> 0);
  }

  public static ServerFactory createWithUrlFactoryAndPortSupplier(UrlFactory names, Supplier<Integer> ports) {
    return new ServerFactory(names, ports);
  }

  public Server allocateAddressAndCreate(
      List<BindableService> services, Endpoints.ApiServiceDescriptor.Builder descriptor) throws IOException {
    Server server = listen(services, ports.get());
    descriptor.setUrl(names.createUrl(InetAddress.getLoopbackAddress().getHostAddress(), server.getPort()));
    return server;
  }

  public Server create(List<BindableService> services, Endpoints.ApiServiceDescriptor descriptor) throws IOException {
    String url = descriptor.getUrl();
    return listen(services, Integer.parseInt(url.substring(url.lastIndexOf(':') + 1)));
  }

  private static Server listen(List<BindableService> services, int port) throws IOException {
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
            .maxInboundMessageSize(Integer.MAX_VALUE) // what is too large is for the layers above to say
            .permitKeepAliveTime(20, TimeUnit.SECONDS); // of Python's workers
    for (BindableService service : services) {
      builder.addService(ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
    }
    return builder.build().start();
  }
}
