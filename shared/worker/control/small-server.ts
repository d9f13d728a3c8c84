import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { PortRange } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { createServiceServer } from '../../fleet/index.ts';
import { listenInRange, type PlaneServerTls } from '../../planes/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** A listening server of a worker process. */
export interface SmallServer {
  readonly port: number;
  /** Shows another certificate to new connections, if the server started with one. */
  useCertificate(tls: PlaneServerTls): void;
  close(): Promise<void>;
}

export interface SmallServerOptions {
  /** Name in log lines and errors. @example 'status server' */
  readonly name: string;
  readonly host: string;
  /** Ports to try; the first free one is bound. */
  readonly ports: PortRange;
  /** Setting of the port, which the error names if the port is taken. */
  readonly portSetting: string;
  /** Certificate of the server. @default no TLS */
  readonly tls?: PlaneServerTls | undefined;
  readonly logger: Logger;
}

/** Longest time for a whole request to arrive, including its body. The server looks for late ones every `CHECK_MS`. */
const REQUEST_MS_MAX = 10_000;
const CHECK_MS = 2000;
/** Bound of open connections. Only probes, scrapers and operators connect. */
const CONNECTIONS_MAX = 256;

/**
 * Serves pages that few clients read, and to which they send nothing large.
 * @throws Error with one line for the operator if the port is not available
 */
export async function startSmallServer(
  { name, host, ports, portSetting, tls, logger }: SmallServerOptions,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<SmallServer> {
  const limits = {
    requestTimeout: REQUEST_MS_MAX,
    headersTimeout: REQUEST_MS_MAX,
    connectionsCheckingInterval: CHECK_MS,
  };
  const { server, useCertificate } = createServiceServer(limits, tls, (request, response) => {
    answer(request, response).catch((thrown: unknown) => {
      logger.error(`${name}: request failed`, { reason: reasonOf(thrown) });
      if (response.headersSent) return void response.end();
      response.writeHead(500, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(`${name}: the answer cannot be made; its log says why\n`);
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  try {
    await listenInRange(server, ports, host);
  } catch (thrown) {
    const message = `the ${name} cannot listen on ${host}:${ports.first} (${reasonOf(thrown)}): set ${portSetting}`;
    throw new Error(message, { cause: thrown });
  }
  return {
    port: (server.address() as AddressInfo).port, // a listening TCP server has an AddressInfo
    useCertificate,
    close: () => closeServer(server),
  };
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  if (!server.listening) return;
  await new Promise((resolve) => server.close(resolve));
}
