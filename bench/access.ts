/**
 * What asking for an API key costs: a check of a key that is known, the same with a budget, the name in the id of a stream, and
 * the difference that keys make to a whole unary chat over a scripted pipeline, and to one of KServe. Process CPU time.
 *
 *     npm run bench:part -- bench/access.ts [--json]
 */
import { issueKey, KeyGate, type KeyLimits, RequestNames } from '../shared/access/index.ts';
import { systemClock } from '../shared/clock/index.ts';
import { createHttpApp } from '../shared/frontends/http/app.ts';
import type { BodyIntake } from '../shared/frontends/http/hosts/body-intake.ts';
import type { FrameSink, HostExchange } from '../shared/frontends/http/hosts/exchange.ts';
import { encodeMessage, type GrpcCall, type GrpcMethod, type GrpcStatus, STATUS } from '../shared/grpc/index.ts';
import { ModelInferRequestSchema } from '../shared/grpc/messages/generated/grpc_service_pb.js';
import type { IncomingCall } from '../shared/planes/index.ts';
import { silentLogger } from '../shared/telemetry/index.ts';
import { createTestApp } from '../test/support/http-app.ts';
import { type ScriptedKserve, startScriptedKserve } from '../test/support/kserve/scripted-server.ts';
import { MemoryKeyStore } from '../test/support/memory-key-store.ts';
import { playTexts, ScriptedPipeline } from '../test/support/scripted-pipeline.ts';

const CHECKS_A_ROUND = 20_000;
const REQUESTS_A_ROUND = 250;
const SHORT_ROUNDS = 200;
const ROUNDS = 25;
const CHECK_US_MAX = 5;
const PATH = '/v1/chat/completions';
const INFER = '/inference.GRPCInferenceService/ModelInfer';
const BODY = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] }));

interface Row {
  readonly what: string;
  readonly us: number;
  readonly target: string;
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Median of what one of `count` costs, after warm rounds. */
async function medianUs(count: number, round: () => void | Promise<void>): Promise<number> {
  for (let warm = 0; warm < 3; warm++) await round();
  const costs: number[] = [];
  for (let at = 0; at < ROUNDS; at++) {
    const before = cpuUs();
    await round();
    costs.push((cpuUs() - before) / count);
  }
  return costs.sort((a, b) => a - b)[ROUNDS >> 1]!;
}

async function openGate(limits: KeyLimits) {
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock: systemClock, freshMs: 300_000 });
  const { text } = await issueKey(store, systemClock, { name: 'bench', owner: 'bench', scopes: ['inference'], limits });
  const authorization = `Bearer ${text}`;
  const caller = { header: (name: string) => (name === 'authorization' ? authorization : undefined) };
  await gate.admit(caller, 'generate', PATH);
  return { gate, caller, authorization };
}

async function checkUs(limits: KeyLimits): Promise<number> {
  const { gate, caller } = await openGate(limits);
  return medianUs(CHECKS_A_ROUND, () => {
    for (let at = 0; at < CHECKS_A_ROUND; at++) void gate.admit(caller, 'generate', PATH);
  });
}

function nameUs(): Promise<number> {
  const names = new RequestNames('a secret of thirty-two characters or more');
  return medianUs(CHECKS_A_ROUND, () => {
    for (let at = 0; at < CHECKS_A_ROUND; at++) {
      names.suffixOf({ key: '1b4e28ba2fa14d3ba3f5ef19b5a7633b', workerId: '2a' }, 'bench');
    }
  });
}

/** A host that costs next to nothing, so that what is left to measure is the app. */
class BareExchange implements HostExchange {
  readonly method = 'POST';
  readonly path = PATH;
  readonly query = '';
  readonly headerLines = 2;
  readonly sink: FrameSink;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(headers: Readonly<Record<string, string>>, onEnd: () => void) {
    this.#headers = headers;
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

/** CPU of a chat with keys less that of one without. */
async function addedToChatUs(): Promise<number> {
  const open = () => {
    const pipeline = new ScriptedPipeline();
    return pipeline.onGenerate(({ sink }) => {
      pipeline.calls.length = 0; // nobody looks at them
      playTexts(sink, ['hello']);
    });
  };
  const { gate, authorization } = await openGate({});
  const parts = { logger: silentLogger };
  const apps = [createTestApp({ ...parts, pipeline: open() }), createTestApp({ ...parts, pipeline: open(), gate })];
  const headers = { 'content-type': 'application/json', authorization };
  const round = async ({ deps }: (typeof apps)[number]): Promise<number> => {
    const app = createHttpApp(deps);
    const before = cpuUs();
    for (let at = 0; at < REQUESTS_A_ROUND; at++) {
      await new Promise<void>((resolve) => {
        app.serve(new BareExchange(headers, resolve));
      });
    }
    return (cpuUs() - before) / REQUESTS_A_ROUND;
  };
  return differenceUs(
    () => round(apps[0]!),
    () => round(apps[1]!),
  );
}

/**
 * What the second costs more, each at its quickest: whatever else a machine does only adds to a round. They take turns in short
 * rounds, of which some are not disturbed.
 */
async function differenceUs(without: () => Promise<number>, asked: () => Promise<number>): Promise<number> {
  const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] as [number, number];
  for (let at = 0; at < SHORT_ROUNDS; at++) {
    least[0] = Math.min(least[0], await without());
    least[1] = Math.min(least[1], await asked());
  }
  return least[1] - least[0];
}

/** A call that costs next to nothing, so that what is left to measure is the service. */
class BareCall implements GrpcCall {
  readonly path = INFER;
  readonly closed = new AbortController().signal;
  readonly deadline = undefined;
  isOver = false;
  readonly #authorization: string;
  readonly #message: Buffer;
  readonly #onEnd: () => void;

  constructor(authorization: string, message: Buffer, onEnd: () => void) {
    this.#authorization = authorization;
    this.#message = message;
    this.#onEnd = onEnd;
  }

  header(name: string): string | undefined {
    return name === 'authorization' ? this.#authorization : undefined;
  }

  headerNames(): readonly string[] {
    return ['authorization'];
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

/** The same for a unary inference of KServe's service, HTTP/2 apart. */
async function addedToInferUs(): Promise<number> {
  const { gate, authorization } = await openGate({});
  const letters = (call: IncomingCall): void => {
    call.tokens(0, [3, 4], 0, 2);
    call.output({ finish_reason: 'length' });
    call.end();
  };
  const [open, guarded] = [await startScriptedKserve({ letters }), await startScriptedKserve({ letters, gate })];
  const text = {
    name: 'text_input',
    datatype: 'BYTES',
    shape: [1n],
    contents: { bytesContents: [Buffer.from('abc')] },
  };
  const message = Buffer.from(
    encodeMessage(ModelInferRequestSchema, {
      modelName: 'letters',
      parameters: { max_tokens: { parameterChoice: { case: 'int64Param', value: 2n } } },
      inputs: [text],
    }),
  );
  const roundOf = async ({ service }: ScriptedKserve): Promise<number> => {
    const method = service.methods.find(({ path }) => path === INFER) as GrpcMethod;
    const before = cpuUs();
    for (let at = 0; at < REQUESTS_A_ROUND; at++) {
      await new Promise<void>((resolve) => void method.serve(new BareCall(authorization, message, resolve)));
    }
    return (cpuUs() - before) / REQUESTS_A_ROUND;
  };
  const us = await differenceUs(
    () => roundOf(open),
    () => roundOf(guarded),
  );
  for (const models of [open, guarded]) await models.close();
  return us;
}

const limits = { requestsPerMinute: 1_000_000_000, tokensPerMinute: 1_000_000_000 };
const rows: Row[] = [
  { what: 'check of a known key', us: await checkUs({}), target: `<= ${CHECK_US_MAX}` },
  { what: 'the same with budgets', us: await checkUs(limits), target: `<= ${CHECK_US_MAX}` },
  { what: 'name of a stream', us: await nameUs(), target: '-' },
  { what: 'added to a unary chat', us: await addedToChatUs(), target: '<= 5' },
  { what: 'added to a unary inference of KServe', us: await addedToInferUs(), target: '<= 5' },
];
if (process.argv.includes('--json')) console.log(JSON.stringify(rows, undefined, 2));
else {
  console.log('| What | us | target |\n| --- | --- | --- |');
  for (const { what, us, target } of rows) console.log(`| ${what} | ${us.toFixed(2)} | ${target} |`);
}
