/**
 * What traces cost a request: a unary chat over a scripted pipeline, which has the spans of the transport and of the model, and a
 * unary inference of KServe through the pipeline, which has those of tokens, route and worker besides. Without a tracer, with one
 * that samples nothing, and with one that samples all. Process CPU time, and bytes allocated.
 *
 *     npm run bench:part -- bench/tracing.ts [--json]
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock, systemRandom } from '../shared/clock/index.ts';
import { createHttpApp } from '../shared/frontends/http/app.ts';
import type { BodyIntake } from '../shared/frontends/http/hosts/body-intake.ts';
import type { FrameSink, HostExchange } from '../shared/frontends/http/hosts/exchange.ts';
import { encodeMessage, type GrpcCall, type GrpcMethod, type GrpcStatus, STATUS } from '../shared/grpc/index.ts';
import { ModelInferRequestSchema } from '../shared/grpc/messages/generated/grpc_service_pb.js';
import type { IncomingCall } from '../shared/planes/index.ts';
import { silentLogger, Tracer } from '../shared/telemetry/index.ts';
import { createTestApp } from '../test/support/http-app.ts';
import { startScriptedKserve } from '../test/support/kserve/scripted-server.ts';
import { playTexts, ScriptedPipeline } from '../test/support/scripted-pipeline.ts';

const REQUESTS_A_ROUND = 250;
const ROUNDS = 120;
/** So few that what they allocate fits into the young generation, and nothing is collected meanwhile. */
const REQUESTS_A_WEIGHING = 20;
const WEIGHINGS = 40;
const PATH = '/v1/chat/completions';
const INFER = '/inference.GRPCInferenceService/ModelInfer';
const BODY = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] }));
const HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  host: 'localhost:8000',
  'user-agent': 'bench/1.0',
  ':authority': 'localhost:8001',
};

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

type Ask = () => Promise<void>;

/** A host that costs next to nothing, so that what is left to measure is the app. */
class BareExchange implements HostExchange {
  readonly method = 'POST';
  readonly path = PATH;
  readonly query = '';
  readonly scheme = 'http';
  readonly httpVersion = '1.1';
  readonly headerLines = 3;
  readonly sink: FrameSink;

  constructor(onEnd: () => void) {
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
    return Object.keys(HEADERS);
  }

  header(name: string): string | undefined {
    return HEADERS[name];
  }

  async readBody(intake: BodyIntake): Promise<void> {
    intake.add(BODY);
  }
}

/** A call that costs next to nothing, so that what is left to measure is the service and the pipeline. */
class BareCall implements GrpcCall {
  readonly path = INFER;
  readonly closed = new AbortController().signal;
  readonly deadline = undefined;
  isOver = false;
  readonly #message: Buffer;
  readonly #onEnd: () => void;

  constructor(message: Buffer, onEnd: () => void) {
    this.#message = message;
    this.#onEnd = onEnd;
  }

  header(name: string): string | undefined {
    return HEADERS[name];
  }

  headerNames(): readonly string[] {
    return Object.keys(HEADERS);
  }

  receive(onMessage: (message: Buffer | undefined) => void): void {
    onMessage(this.#message);
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

function openChat(tracer: Tracer | undefined): Ask {
  const pipeline = new ScriptedPipeline();
  pipeline.onGenerate(({ sink }) => {
    pipeline.calls.length = 0; // nobody looks at them
    playTexts(sink, ['hello']);
  });
  const { deps } = createTestApp({ logger: silentLogger, pipeline, ...(tracer && { tracer }) });
  const app = createHttpApp(deps);
  return () => new Promise<void>((resolve) => app.serve(new BareExchange(resolve)));
}

const INFERENCE = Buffer.from(
  encodeMessage(ModelInferRequestSchema, {
    modelName: 'letters',
    parameters: { max_tokens: { parameterChoice: { case: 'int64Param', value: 2n } } },
    inputs: [{ name: 'text_input', datatype: 'BYTES', shape: [1n], contents: { bytesContents: [Buffer.from('abc')] } }],
  }),
);

async function openInfer(
  tracer: Tracer | undefined,
): Promise<{ readonly ask: Ask; readonly close: () => Promise<void> }> {
  const letters = (call: IncomingCall): void => {
    call.tokens(0, [3, 4], 0, 2);
    call.output({ finish_reason: 'length' });
    call.end();
  };
  const models = await startScriptedKserve({ letters, ...(tracer && { tracer }) });
  const method = models.service.methods.find(({ path }) => path === INFER) as GrpcMethod;
  return {
    ask: () => new Promise<void>((resolve) => void method.serve(new BareCall(INFERENCE, resolve))),
    close: () => models.close(),
  };
}

async function askTimes(ask: Ask, count: number): Promise<void> {
  for (let at = 0; at < count; at++) await ask();
}

/** CPU of one request of each at its quickest: whatever else a machine does only adds to a round. They take turns. */
async function leastUs(asks: readonly Ask[]): Promise<readonly number[]> {
  const least = asks.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, ask] of asks.entries()) {
      const before = process.cpuUsage();
      await askTimes(ask, REQUESTS_A_ROUND);
      const { user, system } = process.cpuUsage(before);
      least[at] = Math.min(least[at]!, (user + system) / REQUESTS_A_ROUND);
    }
  }
  return least;
}

/** Median of what one request allocates. */
async function bytesOf(ask: Ask): Promise<number> {
  const weights: number[] = [];
  for (let at = 0; at < WEIGHINGS; at++) {
    collect();
    const before = process.memoryUsage().heapUsed;
    await askTimes(ask, REQUESTS_A_WEIGHING);
    weights.push((process.memoryUsage().heapUsed - before) / REQUESTS_A_WEIGHING);
  }
  return weights.sort((a, b) => a - b)[WEIGHINGS >> 1]!;
}

let spans = 0;
const tracerOf = (sampler: 'always_off' | 'always_on'): Tracer =>
  new Tracer({ clock: systemClock, random: systemRandom, sampler, sinks: [{ ended: () => void spans++ }] });

const TRACERS = {
  'no tracer': undefined,
  'samples none': tracerOf('always_off'),
  'samples all': tracerOf('always_on'),
};
const rows: { readonly what: string; readonly us: number; readonly bytes: number }[] = [];

async function measure(what: string, asks: readonly Ask[]): Promise<void> {
  for (const ask of asks) await askTimes(ask, 20 * REQUESTS_A_ROUND);
  const us = await leastUs(asks);
  for (const [at, name] of Object.keys(TRACERS).entries()) {
    rows.push({ what: `${what}, ${name}`, us: us[at]!, bytes: await bytesOf(asks[at]!) });
  }
}

await measure('chat', Object.values(TRACERS).map(openChat));
const inferences = await Promise.all(Object.values(TRACERS).map(openInfer));
await measure(
  'KServe',
  inferences.map(({ ask }) => ask),
);
for (const { close } of inferences) await close();

if (process.argv.includes('--json')) console.log(JSON.stringify(rows, undefined, 2));
else {
  console.log('| What | us a request | bytes a request |\n| --- | --- | --- |');
  for (const { what, us, bytes } of rows) console.log(`| ${what} | ${us.toFixed(2)} | ${bytes.toFixed(0)} |`);
}
if (spans === 0) throw new Error('no span was made');
