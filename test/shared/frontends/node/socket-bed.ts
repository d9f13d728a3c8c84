import { type ClientOptions, WebSocket } from 'ws';
import type { Clock } from '../../../../shared/clock/index.ts';
import { type HttpServer, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import type { TlsMaterial } from '../../../../shared/frontends/node/tls-files.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../../../support/http-app.ts';
import { playTexts, type ScriptedCall, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';
import { waitUntil } from '../../../support/wait-until.ts';

export const CREATE = { type: 'response.create', model: 'm', input: 'hi', store: false };

/** A server whose model says what the test scripts. */
export interface SocketBed extends TestApp {
  readonly server: HttpServer;
  readonly pipeline: ScriptedPipeline;
}

const servers: HttpServer[] = [];

export async function closeServers(): Promise<void> {
  for (const server of servers.splice(0)) await server.close(0);
}

export async function openServer(
  options: Omit<TestAppOptions, 'pipeline'> & {
    readonly pipeline?: ScriptedPipeline;
    readonly tls?: TlsMaterial;
    readonly play?: (call: ScriptedCall) => void;
    readonly socketClock?: Clock;
    readonly socketsMax?: number;
  } = {},
): Promise<SocketBed> {
  const play = options.play ?? (({ sink }: ScriptedCall) => playTexts(sink, ['he', 'llo']));
  const pipeline = options.pipeline ?? new ScriptedPipeline().onGenerate(play);
  const test = createTestApp({ pipeline, ...options });
  const server = await startHttpServer(test.app, {
    host: '127.0.0.1',
    port: 0,
    lifecycle: test.lifecycle,
    onLimit: test.deps.metrics.limitReached,
    tls: options.tls,
    onSockets: test.deps.metrics.openSockets,
    ...(options.socketsMax === undefined ? {} : { socketsMax: options.socketsMax }),
    ...(options.socketClock === undefined ? {} : { clock: options.socketClock }),
  });
  servers.push(server);
  return { ...test, server, pipeline };
}

/** A client on a socket, with everything it was told. */
export class SocketClient {
  readonly socket: WebSocket;
  readonly events: JsonObject[] = [];
  /** Code and reason of its end. */
  closed: { readonly code: number; readonly reason: string } | undefined;
  /** Status and body of a refusal to open it. */
  refused: { readonly status: number; readonly body: JsonObject } | undefined;

  /** @param options with `ca`, it asks by TLS */
  constructor(port: number, options: ClientOptions = {}, protocols: string[] = [], path = '/v1/responses') {
    const scheme = options.ca === undefined ? 'ws' : 'wss';
    this.socket = new WebSocket(`${scheme}://127.0.0.1:${port}${path}`, protocols, options);
    this.socket
      .on('message', (data) => this.events.push(JSON.parse(String(data)) as JsonObject))
      .on('close', (code, reason) => {
        this.closed = { code, reason: String(reason) };
      })
      .on('error', () => undefined)
      .on('unexpected-response', (_request, response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += String(chunk);
        });
        response.on('end', () => {
          this.refused = { status: response.statusCode ?? 0, body: JSON.parse(text) as JsonObject };
        });
      });
  }

  async opened(): Promise<this> {
    await waitUntil(() => this.socket.readyState === this.socket.OPEN || this.refused !== undefined);
    return this;
  }

  send(event: object): void {
    this.socket.send(JSON.stringify(event));
  }

  /** The last event of the next response: one that ends it, or an error. */
  async ask(event: object): Promise<JsonObject> {
    this.send(event);
    return this.ended();
  }

  /** Waits for the end of the response under way, and takes its events away. */
  async ended(): Promise<JsonObject> {
    await waitUntil(() => this.events.some(isEnd));
    const at = this.events.findIndex(isEnd);
    return this.events.splice(0, at + 1)[at]!;
  }
}

function isEnd({ type }: JsonObject): boolean {
  return type === 'error' || /^response\.(completed|incomplete|failed)$/.test(String(type));
}

export function idOf(end: JsonObject): string {
  return String((end.response as JsonObject).id);
}
