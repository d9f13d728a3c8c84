/**
 * Requests whose hosts cost next to nothing, so that what is left to measure is the app: a unary chat and a unary
 * inference of KServe.
 */
import { createHttpApp } from '../shared/frontends/http/app.ts';
import type { BodyIntake } from '../shared/frontends/http/exchange/body-intake.ts';
import type { FrameSink, HostExchange } from '../shared/frontends/http/exchange/exchange.ts';
import { encodeMessage, type GrpcCall, type GrpcMethod, type GrpcStatus, STATUS } from '../shared/grpc/index.ts';
import { ModelInferRequestSchema } from '../shared/grpc/messages/generated/grpc_service_pb.js';
import type { IncomingCall } from '../shared/planes/index.ts';
import { silentLogger } from '../shared/telemetry/log/logger.ts';
import { createTestApp, type TestAppOptions } from '../test/support/http-app.ts';
import { startScriptedKserve } from '../test/support/kserve/scripted-server.ts';
import { playTexts, ScriptedPipeline } from '../test/support/scripted-pipeline.ts';

/** By name, in lower case. */
type Headers = Readonly<Record<string, string>>;

const INFER = '/inference.GRPCInferenceService/ModelInfer';
const BODY = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] }));
const INFERENCE = Buffer.from(
  encodeMessage(ModelInferRequestSchema, {
    modelName: 'letters',
    parameters: { max_tokens: { parameterChoice: { case: 'int64Param', value: 2n } } },
    inputs: [{ name: 'text_input', datatype: 'BYTES', shape: [1n], contents: { bytesContents: [Buffer.from('abc')] } }],
  }),
);

/** Sends one chat to an app over a scripted pipeline. */
export function openChat(headers: Headers, parts: Omit<TestAppOptions, 'logger' | 'pipeline'>): () => Promise<void> {
  const pipeline = new ScriptedPipeline();
  pipeline.onGenerate(({ sink }) => {
    pipeline.calls.length = 0; // no benchmark reads them
    playTexts(sink, ['hello']);
  });
  const app = createHttpApp(createTestApp({ ...parts, logger: silentLogger, pipeline }).deps);
  return () => new Promise((resolve) => app.serve(new BareExchange(headers, resolve)));
}

/** Sends one inference to KServe's service over a scripted worker, HTTP/2 apart. */
export async function openInfer(headers: Headers, parts: Omit<Parameters<typeof startScriptedKserve>[0], 'letters'>) {
  const letters = (call: IncomingCall): void => {
    call.tokens(0, [3, 4], 0, 2);
    call.output({ finish_reason: 'length' });
    call.end();
  };
  const models = await startScriptedKserve({ ...parts, letters });
  const method = models.service.methods.find(({ path }) => path === INFER) as GrpcMethod;
  return {
    ask: () => new Promise<void>((resolve) => void method.serve(new BareCall(headers, resolve))),
    close: () => models.close(),
  };
}

class BareExchange implements HostExchange {
  readonly method = 'POST';
  readonly path = '/v1/chat/completions';
  readonly query = '';
  readonly scheme = 'http';
  readonly httpVersion = '1.1';
  readonly headerLines: number;
  readonly sink: FrameSink;
  readonly #headers: Headers;

  constructor(headers: Headers, onEnd: () => void) {
    this.#headers = headers;
    this.headerLines = Object.keys(headers).length;
    let isNew = true;
    this.sink = {
      get isNew() {
        return isNew;
      },
      head: () => {
        isNew = false;
      },
      write: () => {},
      end: onEnd,
      breakOff: onEnd,
      flush: () => {},
      isBlocked: () => false,
      onUnblocked: () => {},
      closed: new AbortController().signal,
    };
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  header(name: string): string | undefined {
    return this.#headers[name];
  }

  async readBody(intake: BodyIntake): Promise<void> {
    intake.add(BODY);
  }
}

class BareCall implements GrpcCall {
  readonly path = INFER;
  readonly closed = new AbortController().signal;
  readonly deadline = undefined;
  isOver = false;
  readonly #headers: Headers;
  readonly #onEnd: () => void;

  constructor(headers: Headers, onEnd: () => void) {
    this.#headers = headers;
    this.#onEnd = onEnd;
  }

  header(name: string): string | undefined {
    return this.#headers[name];
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  receive(onMessage: (message: Buffer | undefined) => void): void {
    onMessage(INFERENCE);
  }

  write(): void {}

  watch(): () => void {
    return () => {};
  }

  isBlocked(): boolean {
    return false;
  }

  onUnblocked(): void {}

  end(status?: GrpcStatus): void {
    if (this.isOver) return;
    if (status !== undefined && status.code !== STATUS.OK) throw new Error(`an inference failed: ${status.message}`);
    this.isOver = true;
    this.#onEnd();
  }
}
