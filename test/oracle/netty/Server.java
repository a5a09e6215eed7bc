// SPDX-License-Identifier: MIT

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.ChannelInputShutdownEvent;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.uring.IoUring;
import io.netty.channel.uring.IoUringBufferRingConfig;
import io.netty.channel.uring.IoUringChannelOption;
import io.netty.channel.uring.IoUringFixedBufferRingAllocator;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringIoHandlerConfig;
import io.netty.channel.uring.IoUringServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * A server on Netty's transport of io_uring, with a buffer ring for all connections, or,
 * with `nio` behind the rest, on its default transport.
 *
 * `Server echo` sends back what it receives, and `Server http` answers `GET /N` with N
 * bytes, each of which follows from N and its place. It prints its port, and serves
 * until its standard input ends. It ends with a failure if anything is not as expected.
 */
final class Server {
    private static final Logger LOG = Logger.getLogger("io.netty");
    private static final int BACKLOG = 4096;
    /* So that clients which do not read hold their sends up. */
    private static final int SEND_BYTES = 32 << 10;
    private static final short BUFFERS = 16384;
    private static final int BUFFER_BYTES = 2048;
    private static final short BUFFER_GROUP = 0;

    private static final int BODY_BYTES_MAX = 1 << 20;
    private static final int PERIOD = 251;
    /* All bodies: each begins at one of the first PERIOD bytes. */
    private static final byte[] BODIES = new byte[BODY_BYTES_MAX + PERIOD];

    static {
        for (int i = 0; i < BODIES.length; i++) {
            BODIES[i] = (byte) (i % PERIOD);
        }
    }

    private static void fail(Throwable why) {
        why.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    /** What connections of both kinds have in common. */
    private static class Talk extends ChannelInboundHandlerAdapter {
        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        @Override
        public void channelWritabilityChanged(ChannelHandlerContext context) {
            Channel channel = context.channel();
            channel.config().setAutoRead(channel.isWritable());
        }

        /** The client has said all: what is on its way goes out first. */
        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) {
            if (event == ChannelInputShutdownEvent.INSTANCE) {
                context.writeAndFlush(Unpooled.EMPTY_BUFFER)
                    .addListener(ChannelFutureListener.CLOSE);
            }
        }

        /** That a client has reset the connection is no fault of the server's. */
        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable why) {
            String said = String.valueOf(why.getMessage());
            boolean isReset = why instanceof ClosedChannelException
                || why instanceof IOException
                && (said.contains("Connection reset") || said.contains("Broken pipe"));
            if (!isReset) {
                fail(why);
            }
            context.close();
        }
    }

    private static final class Echo extends Talk {
        @Override
        public void channelRead(ChannelHandlerContext context, Object heard) {
            context.write(heard)
                .addListener(ChannelFutureListener.FIRE_EXCEPTION_ON_FAILURE);
        }
    }

    private static final class Http extends Talk {
        @Override
        public void channelRead(ChannelHandlerContext context, Object heard) {
            if (!(heard instanceof HttpRequest question)) {
                return; // the end of a question
            }
            if (question.decoderResult().isFailure()) {
                fail(question.decoderResult().cause());
            }
            int bytes = Integer.parseInt(question.uri().substring(1));
            ByteBuf body = Unpooled.wrappedBuffer(BODIES, bytes * 7 % PERIOD, bytes);
            var answer = new DefaultFullHttpResponse(
                HttpVersion.HTTP_1_1, HttpResponseStatus.OK, body);
            answer.headers().set("Content-Length", bytes);
            context.write(answer)
                .addListener(ChannelFutureListener.FIRE_EXCEPTION_ON_FAILURE);
        }
    }

    private static ChannelInitializer<Channel> handlers(String kind) {
        return new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                switch (kind) {
                    case "echo" -> channel.pipeline().addLast(new Echo());
                    case "http" -> channel.pipeline().addLast(new HttpServerCodec(), new Http());
                    default -> fail(new IllegalArgumentException(kind));
                }
            }
        };
    }

    private static EventLoopGroup loops() {
        IoUring.ensureAvailability();
        var buffers = IoUringBufferRingConfig.builder()
            .bufferGroupId(BUFFER_GROUP)
            .bufferRingSize(BUFFERS)
            .batchSize(BUFFERS)
            .allocator(new IoUringFixedBufferRingAllocator(BUFFER_BYTES))
            .build();
        return new MultiThreadIoEventLoopGroup(1, IoUringIoHandler.newFactory(
            new IoUringIoHandlerConfig().setBufferRingConfig(buffers)));
    }

    public static void main(String[] arguments) throws Exception {
        // It warns whenever completions overflow, of which nothing is lost.
        LOG.setLevel(Level.SEVERE);
        var server = new ServerBootstrap();
        if (arguments.length > 1 && arguments[1].equals("nio")) {
            server.group(new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory()))
                .channel(NioServerSocketChannel.class);
        } else {
            server.group(loops())
                .channel(IoUringServerSocketChannel.class)
                .childOption(IoUringChannelOption.IO_URING_BUFFER_GROUP_ID, BUFFER_GROUP);
        }
        var channel = server
            .option(ChannelOption.SO_BACKLOG, BACKLOG)
            .childOption(ChannelOption.SO_SNDBUF, SEND_BYTES)
            .childOption(ChannelOption.ALLOW_HALF_CLOSURE, true)
            .childHandler(handlers(arguments[0]))
            .bind(0).sync().channel();
        System.out.println(((InetSocketAddress) channel.localAddress()).getPort());
        System.exit(System.in.read() == -1 ? 0 : 1);
    }
}
