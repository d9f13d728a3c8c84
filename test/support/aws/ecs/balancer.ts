import { once } from 'node:events';
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import {
  type ClientHttp2Session,
  connect,
  createServer as createHttp2Server,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../free-port.ts';
import { FailureCount, type TimeScales } from './failure-count.ts';
import type { Ports } from './machine.ts';
import type { ServicePlan } from './services.ts';
import { type BalancerPlan, readBalancer, type TargetGroupPlan } from './target-groups.ts';
import type { Templates, TemplateValues } from './values.ts';

/** A task behind the load balancer. */
interface Target {
  readonly slot: string;
  readonly group: TargetGroupPlan;
  readonly port: number;
  /** Connection to a target that speaks gRPC. A new one replaces it after it ends. */
  session: ClientHttp2Session | undefined;
  /** Successful checks in a row before the target is used. */
  successes: number;
  readonly failures: FailureCount;
  isDraining: boolean;
  /** Requests in flight. */
  running: number;
}

/**
 * The load balancer of a deployment. It sends each request to the target with the fewest requests, among those that
 * pass its health check. It lets the requests of a draining target finish. The real one terminates TLS. Here clients
 * use plain text: HTTP on one port, gRPC on another.
 */
export class Balancer {
  readonly #plan: BalancerPlan;
  readonly #ports: Ports;
  readonly #scales: TimeScales;
  readonly #targets: Target[] = [];
  readonly #agent = new Agent({ keepAlive: true });
  readonly #http: Server;
  readonly #grpc: Http2Server;
  readonly #isOver = new AbortController();
  /** Requests refused because no target was available. */
  refused = 0;
  url = '';
  grpcAddress = '';

  private constructor(plan: BalancerPlan, ports: Ports, scales: TimeScales) {
    this.#plan = plan;
    this.#ports = ports;
    this.#scales = scales;
    this.#http = createServer({ requestTimeout: 0 }, (request, response) => this.#forward(request, response));
    this.#grpc = createHttp2Server();
    this.#grpc.on('stream', (stream, headers) => this.#forwardStream(stream, headers));
  }

  static async open(templates: Templates, values: TemplateValues, ports: Ports, scales: TimeScales): Promise<Balancer> {
    const balancer = new Balancer(readBalancer(templates, values), ports, scales);
    for (const server of [balancer.#http, balancer.#grpc]) {
      await once(server.listen(await freePort(), '127.0.0.1'), 'listening');
    }
    const portOf = (server: Server | Http2Server): number => (server.address() as AddressInfo).port;
    balancer.url = `http://127.0.0.1:${portOf(balancer.#http)}`;
    balancer.grpcAddress = `127.0.0.1:${portOf(balancer.#grpc)}`;
    return balancer;
  }

  /** Begins to check the health of a task of a service. */
  async register({ targets }: ServicePlan, slot: string): Promise<void> {
    for (const { group: id, port } of targets) {
      const group = this.#plan.groups.find((each) => each.id === id);
      if (group === undefined) throw new Error(`no target group ${id}`);
      const local = await this.#ports.of(slot, port);
      const target: Target = {
        slot,
        group,
        port: local,
        session: undefined,
        successes: 0,
        failures: new FailureCount(group.unhealthyThreshold, group.intervalMs, this.#scales),
        isDraining: false,
        running: 0,
      };
      this.#targets.push(target);
      void this.#watch(target);
    }
  }

  /** Whether the task has passed enough checks as a target of all of its groups. */
  isHealthy({ targets }: ServicePlan, slot: string): boolean {
    const own = this.#targets.filter((each) => each.slot === slot && !each.isDraining);
    return own.length >= targets.length && own.every(isUsed);
  }

  /**
   * Stops sending new requests to the task. Resolves after its last request, or after the delay of its groups. Resolves
   * at once for a lost task.
   */
  async deregister(slot: string, isLost = false): Promise<void> {
    const own = this.#targets.filter((each) => each.slot === slot);
    for (const target of own) target.isDraining = true;
    const delayMs = isLost ? 0 : Math.max(0, ...own.map(({ group }) => group.deregistrationMs));
    const deadlineMs = performance.now() + delayMs;
    while (own.some(({ running }) => running > 0) && performance.now() < deadlineMs) await sleep(20);
    for (const target of own) {
      this.#targets.splice(this.#targets.indexOf(target), 1);
      target.session?.destroy();
    }
  }

  async close(): Promise<void> {
    this.#isOver.abort();
    for (const { session } of this.#targets) session?.destroy();
    this.#agent.destroy();
    this.#http.closeAllConnections();
    this.#http.close();
    this.#grpc.close();
  }

  async #watch(target: Target): Promise<void> {
    const { signal } = this.#isOver;
    const { group } = target;
    while (!signal.aborted && !target.isDraining) {
      const isGood = await (group.isGrpc ? isServing(target) : this.#ask(target));
      if (isGood) {
        target.successes++;
        target.failures.reset();
      } else {
        target.failures.add();
        if (!isUsed(target) || target.failures.isOver) target.successes = 0;
      }
      // the loop condition notices the abort
      await sleep(group.intervalMs * this.#scales.timeScale, undefined, { signal }).catch(() => {});
    }
  }

  async #ask({ group, port }: Target): Promise<boolean> {
    const options = { signal: AbortSignal.any([this.#isOver.signal, AbortSignal.timeout(5000)]) };
    const answer = await fetch(`http://127.0.0.1:${port}${group.healthPath}`, options).catch(() => undefined);
    await answer?.arrayBuffer().catch(() => {}); // only the status counts
    return answer?.ok === true;
  }

  /** Returns the target with the fewest requests in the group of `path`. */
  #targetFor(path: string): Target | undefined {
    const group = this.#plan.groupOf(path);
    const usable = this.#targets.filter((each) => each.group.id === group && !each.isDraining && isUsed(each));
    return usable.sort((one, other) => one.running - other.running)[0];
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const target = this.#targetFor(request.url ?? '/');
    if (target === undefined) {
      this.refused++;
      response.writeHead(503).end();
      return;
    }
    target.running++;
    const options = { port: target.port, method: request.method, path: request.url, headers: request.headers };
    const onward = httpRequest({ host: '127.0.0.1', agent: this.#agent, ...options }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    response.on('close', () => {
      target.running--;
      onward.destroy();
    });
    request.pipe(onward);
  }

  #forwardStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const target = this.#targetFor(String(headers[':path']));
    stream.on('error', () => {}); // the client has disconnected
    if (target === undefined) {
      this.refused++;
      stream.respond({ ':status': 503 }, { endStream: true });
      return;
    }
    target.running++;
    const onward = sessionOf(target).request(headers);
    let trailers: IncomingHttpHeaders | undefined;
    // A response without a message may consist of trailers only.
    onward.on('response', (answer) => {
      if (answer['grpc-status'] !== undefined) trailers = answer;
      stream.respond(answer, trailers === undefined ? { waitForTrailers: true } : { endStream: true });
    });
    onward.on('trailers', (given: IncomingHttpHeaders) => {
      trailers = given;
    });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}));
    onward.on('error', () => {}); // `close` follows
    onward.on('close', () => (trailers === undefined ? stream.destroy() : stream.writable && stream.end()));
    stream.on('close', () => {
      target.running--;
      onward.destroy();
    });
    stream.pipe(onward).pipe(stream);
  }
}

const isUsed = ({ successes, group }: Target): boolean => successes >= group.healthyThreshold;

function sessionOf(target: Target): ClientHttp2Session {
  if (target.session === undefined || target.session.closed || target.session.destroyed) {
    target.session = connect(`http://127.0.0.1:${target.port}`);
    target.session.on('error', () => {}); // its requests fail with it
  }
  return target.session;
}

/** Asks the health service of a target about the server as a whole, which is an empty message. */
function isServing(target: Target): Promise<boolean> {
  const headers = {
    ':method': 'POST',
    ':path': target.group.healthPath,
    'content-type': 'application/grpc',
    te: 'trailers',
  };
  const asked = sessionOf(target).request(headers);
  return new Promise((resolve) => {
    asked.on('trailers', (trailers: IncomingHttpHeaders) => resolve(trailers['grpc-status'] === '0'));
    asked.on('close', () => resolve(false));
    asked.on('error', () => resolve(false));
    asked.setTimeout(5000, () => asked.close());
    asked.resume().end(Buffer.alloc(5));
  });
}
