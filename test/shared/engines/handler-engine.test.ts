import { describe, expect, it } from 'vitest';
import {
  createHandlerEngine,
  type EngineSink,
  type HandlerOutput,
  type RequestHandler,
} from '../../../shared/engines/index.ts';
import { ServeError } from '../../../shared/errors/index.ts';
import type { EngineOutput } from '../../../shared/protocol/index.ts';
import { chatRequest, TEXT_ENGINE_INFO } from './recording-sink.ts';

const REQUEST = chatRequest();

/** Keeps what it is told; blocked while `isFull`. */
class Reader implements EngineSink {
  readonly said: unknown[] = [];
  readonly closed: Promise<void>;
  isFull = false;
  #close: () => void = () => {};
  #unblocked: () => void = () => {};

  constructor() {
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.said.push({ choice, ids: Array.from(ids).slice(start, start + count) });
  }

  output(output: EngineOutput): void {
    this.said.push(output);
  }

  end(): void {
    this.said.push('end');
    this.#close();
  }

  fail(error: ServeError): void {
    this.said.push(error);
    this.#close();
  }

  isBlocked(): boolean {
    return this.isFull;
  }

  onUnblocked(callback: () => void): void {
    this.#unblocked = callback;
  }

  drain(): void {
    this.isFull = false;
    this.#unblocked();
  }
}

async function read(handler: RequestHandler): Promise<readonly unknown[]> {
  const reader = new Reader();
  createHandlerEngine({ info: TEXT_ENGINE_INFO, handler }).generate(REQUEST, reader, new AbortController().signal);
  await reader.closed;
  return reader.said;
}

describe('an engine made of an async generator', () => {
  it('passes on text, token ids and whole outputs, and ends with the finish reason stop', async () => {
    const said = await read(async function* () {
      yield 'two ';
      yield [5, 6];
      yield Uint32Array.of(7);
      yield { text: 'words', completion_usage: { prompt_tokens: 1, completion_tokens: 2 } };
    });
    expect(said).toEqual([
      { text: 'two ' },
      { choice: 0, ids: [5, 6] },
      { choice: 0, ids: [7] },
      { text: 'words', completion_usage: { prompt_tokens: 1, completion_tokens: 2 } },
      { finish_reason: 'stop' },
      'end',
    ]);
  });

  it('keeps characters whole that a handler cuts', async () => {
    const said = await read(async function* () {
      yield* 'a\u{1f469}b'.split('');
      yield { text: '\ud83d' };
      yield { text: '\udc69!', index: 0 };
    });
    expect(said).toEqual([
      { text: 'a' },
      { text: '\u{1f469}' },
      { text: 'b' },
      { text: '' },
      { text: '\u{1f469}!', index: 0 },
      { finish_reason: 'stop' },
      'end',
    ]);
  });

  it('sends half a character if the other half never comes', async () => {
    const unfinished = await read(async function* () {
      yield 'a\ud83d';
    });
    expect(unfinished).toEqual([{ text: 'a' }, { text: '\ud83d', finish_reason: 'stop' }, 'end']);
    const finished = await read(async function* () {
      yield 'a\ud83d';
      yield { finish_reason: 'length' };
    });
    expect(finished).toEqual([{ text: 'a' }, { text: '\ud83d', finish_reason: 'length' }, 'end']);
  });

  it('leaves the finish reason to the handler that says one', async () => {
    const said = await read(async function* () {
      yield { text: 'cut', finish_reason: 'length' };
    });
    expect(said).toEqual([{ text: 'cut', finish_reason: 'length' }, 'end']);
  });

  it('adds nothing to whole bodies', async () => {
    const said = await read(async function* () {
      yield { body: { object: 'list' } };
    });
    expect(said).toEqual([{ body: { object: 'list' } }, 'end']);
  });

  it('fails the request with what the handler throws, other errors without their text', async () => {
    const own = new ServeError('invalid_value', 'temperature is too high', { param: 'temperature' });
    // biome-ignore lint/correctness/useYield: it fails before it says anything
    const [first] = await read(async function* () {
      throw own;
    });
    expect(first).toBe(own);
    const [, second] = await read(async function* () {
      yield 'a';
      throw new Error('the key is 123');
    });
    expect(second).toMatchObject({ code: 'internal_error', worker: 'Internal' });
    expect((second as Error).message).not.toContain('123');
  });

  it.each<[string, HandlerOutput, readonly EngineOutput[]]>([
    [
      'text',
      'a',
      [{ text: 'a' }, { finish_reason: 'stop' }, { index: 1, text: 'a' }, { index: 1, finish_reason: 'stop' }],
    ],
    [
      'bodies',
      { body: { choices: [{ text: 'a' }] } },
      [{ body: { choices: [{ text: 'a' }] } }, { body: { choices: [{ text: 'a', index: 1 }] }, index: 1 }],
    ],
    [
      'choices of its own',
      { body: { choices: [{ text: 'a' }, { text: 'b' }] } },
      [{ body: { choices: [{ text: 'a' }, { text: 'b' }] } }],
    ],
  ])('gives as many choices as were asked for: %s', async (_, output, said) => {
    const reader = new Reader();
    const handler: RequestHandler = async function* () {
      yield output;
    };
    const request = { ...REQUEST, sampling: { n: 2 } };
    createHandlerEngine({ info: TEXT_ENGINE_INFO, handler }).generate(request, reader, new AbortController().signal);
    await reader.closed;
    expect(reader.said.slice(0, -1)).toEqual(said);
  });

  it('asks for no more while the reader is full', async () => {
    const reader = new Reader();
    reader.isFull = true;
    let asked = 0;
    const handler: RequestHandler = async function* () {
      for (; asked < 3; asked++) yield String(asked);
    };
    createHandlerEngine({ info: TEXT_ENGINE_INFO, handler }).generate(REQUEST, reader, new AbortController().signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(reader.said).toEqual([{ text: '0' }]);
    reader.drain();
    await reader.closed;
    expect(reader.said).toHaveLength(5);
  });

  it('ends the generator when no reader waits any more, and writes nothing to the sink', async () => {
    const aborter = new AbortController();
    const reader = new Reader();
    const ended = new Promise<void>((resolve) => {
      const handler: RequestHandler = async function* (_, { signal }) {
        try {
          yield 'first';
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        } finally {
          resolve();
        }
      };
      createHandlerEngine({ info: TEXT_ENGINE_INFO, handler }).generate(REQUEST, reader, aborter.signal);
    });
    await new Promise((resolve) => setImmediate(resolve));
    aborter.abort();
    await ended;
    expect(reader.said).toEqual([{ text: 'first' }]);
  });

  it('counts the requests under way as load', async () => {
    const reader = new Reader();
    reader.isFull = true;
    const engine = createHandlerEngine({
      info: TEXT_ENGINE_INFO,
      handler: async function* () {
        yield 'x';
      },
    });
    engine.generate(REQUEST, reader, new AbortController().signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(engine.load()[0]?.runningRequests).toBe(1);
    reader.drain();
    await reader.closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect(engine.load()[0]?.runningRequests).toBe(0);
  });
});
