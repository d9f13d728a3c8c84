import { workerError } from '../../../shared/errors/index.ts';
import type { IncomingCall } from '../../../shared/planes/index.ts';
import {
  decodeEngineRequest,
  type EngineRequest,
  type TensorRecord,
  type TensorRequestRecord,
} from '../../../shared/protocol/index.ts';
import type { InferParameter } from '../../../shared/protocol/kserve/messages.ts';

/* The scripted models of test/fixtures/kserve/README.md: the answers of a worker of each. */

/** Returns a failure as a worker's own code raises it. */
function scripted(text: string): Error {
  return workerError('InvalidRequest', `ValueError: ${text}`);
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Plays a script on a call. An error of the script fails the call. */
async function play(call: IncomingCall, script: AsyncGenerator<unknown>): Promise<void> {
  try {
    for await (const body of script) {
      if (call.stopped.aborted) return;
      call.output({ body });
    }
    call.end();
  } catch (thrown) {
    call.fail(thrown as never);
  }
}

function requestOf(call: IncomingCall): EngineRequest {
  return decodeEngineRequest(call.id, call.body as Readonly<Record<string, unknown>>, call.tokenIds);
}

/** Serves the echo engine of all tensor models. */
export function serveEcho(call: IncomingCall): Promise<void> {
  const { input } = requestOf(call);
  if (input.kind !== 'tensor') throw new Error(`an echo engine takes tensors, not ${input.kind}`);
  return play(call, echo(input.body as unknown as TensorRequestRecord, call.stopped));
}

async function* echo(request: TensorRequestRecord, signal: AbortSignal): AsyncGenerator<unknown> {
  const given: Readonly<Record<string, InferParameter>> = request.parameters ?? {};
  const flag = (name: string): boolean => (given[name] as { bool?: boolean } | undefined)?.bool === true;
  const number = (name: string): number | undefined => {
    const value = (given[name] as { int64?: number } | undefined)?.int64;
    return value === undefined ? undefined : Number(value);
  };
  const text = (name: string): string | undefined => (given[name] as { string?: string } | undefined)?.string;
  if (flag('raise_exception')) throw scripted('scripted failure: boom');
  if (flag('no_response')) return;
  if (flag('malformed_response')) {
    yield { garbage: 1 };
    return;
  }
  const count = number('n_responses') ?? 1;
  for (let at = 0; at < count; at++) {
    await sleep(number('delay_ms') ?? 0, signal);
    if (signal.aborted) return;
    if (number('raise_at') === at) throw scripted(`scripted failure at ${at}`);
    yield {
      id: text('resp_id') ?? null,
      model: text('resp_model') ?? request.model,
      tensors: tensorsOf(request.tensors, { flag, isBad: flag('data_mismatch') || number('bad_at') === at }),
      parameters: {
        ...given,
        processed: { bool: true },
        ...(count > 1 ? { seq: { int64: at } } : {}),
        ...(flag('set_final') ? { triton_final_response: { bool: at === count - 1 } } : {}),
      },
    };
  }
}

function tensorsOf(
  tensors: readonly TensorRecord[],
  { flag, isBad }: { readonly flag: (name: string) => boolean; readonly isBad: boolean },
): readonly unknown[] {
  if (flag('no_outputs')) return [];
  if (flag('out_fp16')) {
    const metadata = { name: 'h', data_type: 'Float16', shape: [2] };
    return [{ metadata, data: { data_type: 'Float16', values: [0x3e00, 0xc080] } }];
  }
  const [first, ...others] = tensors;
  if (first === undefined) return [];
  const { metadata, data } = first;
  const values = data.values as Uint8Array;
  const spoiled = {
    metadata: {
      ...metadata,
      ...(flag('type_mismatch') ? { data_type: 'Bool' } : {}),
      ...(flag('neg_shape') ? { shape: [-1] } : {}),
    },
    data: { ...data, values: isBad ? values.subarray(0, values.length - 4) : values },
  };
  return [spoiled, ...others];
}

/**
 * Serves the scripted completions engine, which reads bodies itself.
 * @param onBody receives each body
 */
export function serveText(
  call: IncomingCall,
  onBody: (body: Readonly<Record<string, unknown>>) => void,
): Promise<void> {
  const { input } = requestOf(call);
  if (input.kind !== 'text') throw new Error(`a text engine takes bodies, not ${input.kind}`);
  onBody(input.body);
  return play(call, answer(input.body, call.stopped));
}

interface Choice {
  readonly index: number;
  readonly text: string;
  readonly finish?: string;
}

async function* answer(body: Readonly<Record<string, unknown>>, signal: AbortSignal): AsyncGenerator<unknown> {
  const prompt = String(body.prompt);
  const model = String(body.model);
  const colon = prompt.indexOf(':');
  const [kind, rest] = colon < 0 ? ['', ''] : [prompt.slice(0, colon), prompt.slice(colon + 1)];
  const chunk = (choices: readonly Choice[], more: object = {}) => ({
    id: 'cmpl-1',
    object: 'text_completion',
    created: 1,
    model,
    choices: choices.map(({ index, text, finish }) => ({ index, text, finish_reason: finish ?? null })),
    ...more,
  });
  const one = (text: string, finish?: string) =>
    chunk([{ index: 0, text, ...(finish === undefined ? {} : { finish }) }]);
  switch (kind) {
    case 'n2':
      yield chunk([
        { index: 0, text: 'a' },
        { index: 1, text: 'b' },
      ]);
      yield chunk([
        { index: 0, text: 'A', finish: 'stop' },
        { index: 1, text: 'B', finish: 'length' },
      ]);
      return;
    case 'n2x':
      yield chunk([{ index: 1, text: 'b0' }]);
      yield chunk([{ index: 0, text: 'a0' }]);
      yield chunk([{ index: 1, text: 'b1', finish: 'length' }]);
      yield chunk([{ index: 0, text: 'a1', finish: 'stop' }]);
      return;
    case 'len':
    case 'filter':
    case 'nofinish':
      yield one('abc');
      yield one('', { len: 'length', filter: 'content_filter', nofinish: undefined }[kind]);
      return;
    case 'model':
      yield { ...one('x', 'stop'), model: 'other-name' };
      return;
    case 'usage':
      yield one('x', 'stop');
      yield chunk([], { usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
      return;
    case 'none':
      return;
    case 'boom':
      throw scripted(`scripted failure: ${rest}`);
    case 'boomat':
      for (let at = 0; at < Number(rest); at++) yield one(`t${at}`);
      throw scripted(`scripted failure after ${rest}`);
    case 'slow': {
      const [count = 0, ms = 0] = rest.split(',').map(Number);
      for (let at = 0; at < count; at++) {
        await sleep(ms, signal);
        if (signal.aborted) return;
        yield one(`t${at} `);
      }
      yield one('', 'stop');
      return;
    }
    default:
      yield* pieces(prompt, typeof body.max_tokens === 'number' ? body.max_tokens : undefined, one);
  }
}

function* pieces(prompt: string, max: number | undefined, one: (text: string, finish?: string) => unknown) {
  const all = prompt.match(/[\s\S]{1,4}/g) ?? [];
  for (const piece of all.slice(0, max)) yield one(piece);
  yield one('', max !== undefined && all.length > max ? 'length' : 'stop');
}
