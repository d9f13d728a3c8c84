import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { PortRange } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { createServiceServer } from '../../fleet/index.ts';
import { listenInRange, type PlaneServerTls } from '../../planes/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** A server of a worker process that listens. */
export interface SmallServer {
  readonly port: number;
  /** For new connections, where there was a certificate from the start. */
  useCertificate(tls: PlaneServerTls): void;
  close(): Promise<void>;
}

export interface SmallServerOptions {
  /** As its log lines and errors call it. @example 'status server' */
  readonly name: string;
  readonly host: string;
  /** The first free one is bound. */
  readonly ports: PortRange;
  /** Setting of the port, for whoever finds it taken. */
  readonly portSetting: string;
  /** @default it speaks plainly */
  readonly tls?: PlaneServerTls | undefined;
  readonly logger: Logger;
}

/** A whole request has to arrive within this, its body included; what is late is looked for every `CHECK_MS`. */
const REQUEST_MS_MAX = 10_000;
const CHECK_MS = 2000;
/** Probes, scrapers and operators; more than these are not let in. */
const CONNECTIONS_MAX = 256;

/**
 * Serves what few ask for and nothing large is sent to.
 * @throws Error with one line for the operator when the port cannot be had
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
