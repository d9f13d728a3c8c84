import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import { scanTokenizerJson } from '../../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../../shared/tokens/bpe/tokenizer.ts';
import { createGeneralTokenizer } from '../../../../shared/tokens/general/tokenizer.ts';
import type { Tokenizer } from '../../../../shared/tokens/index.ts';
import { ThreadLane } from '../../../../shared/tokens/prompts/encode-queue.ts';
import { builtinTokenizer } from '../../../support/tokens/variants.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

let folder: string;
let encodeThread: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-thread-lane-'));
  encodeThread = join(folder, 'encode-thread.mjs');
  const root = fileURLToPath(new URL('../../../../', import.meta.url));
  await build({
    entryPoints: [join(root, 'shared/tokens/prompts/encode-thread.ts')],
    outfile: encodeThread,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
  });
});

afterAll(() => rm(folder, { recursive: true }));

/** A thread of our own making, in place of the one that encodes. */
async function script(name: string, code: string): Promise<string> {
  const path = join(folder, `${name}.mjs`);
  await writeFile(path, `import { parentPort, workerData } from 'node:worker_threads';\n${code}`);
  return path;
}

async function using(entry: string, use: (lane: ThreadLane, lost: string[]) => Promise<void>, clock = systemClock) {
  const lost: string[] = [];
  const lane = new ThreadLane({ clock, entry, onLost: ({ message }) => void lost.push(message) });
  try {
    await use(lane, lost);
  } finally {
    await lane.close();
  }
}

const bpe = createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(builtinTokenizer()))))!;
const job = (tokenizer: Tokenizer, ...texts: readonly string[]) => ({
  tokenizer,
  texts,
  addSpecialTokens: false,
  enoughTokens: Number.POSITIVE_INFINITY,
});
const never = () => new AbortController().signal;

describe('the thread that encodes', () => {
  it('gives the ids that this thread gives, on the same tables', async () => {
    await using(encodeThread, async (lane) => {
      const texts = ['Hello there, ', 'caf\u00e9<|im_end|>\n', '\u65e5\u672c\u8a9e'.repeat(500), ''];
      const { ids, counts } = await lane.encode(job(bpe, ...texts), never());
      expect([...ids]).toEqual(texts.flatMap((text) => [...bpe.encode(text)]));
      expect(counts).toEqual(texts.map((text) => bpe.encode(text).length));
      expect(bpe.recipe).toMatchObject({ tables: { blob: { buffer: expect.any(SharedArrayBuffer) } } });
    });
  });

  it('reads the file of any other tokenizer itself', async () => {
    const path = join(builtinModelPath(), 'tokenizer.json');
    const general = await createGeneralTokenizer(builtinTokenizer(), path);
    await using(encodeThread, async (lane) => {
      const { ids } = await lane.encode(job(general, 'Hello there'), never());
      expect(ids).toEqual(general.encode('Hello there'));
    });
  });

  it('stops when it has enough tokens', async () => {
    await using(encodeThread, async (lane) => {
      const { counts } = await lane.encode({ ...job(bpe, 'one two', 'three', 'four'), enoughTokens: 2 }, never());
      expect(counts).toHaveLength(1);
    });
  });

  it('keeps at most its number of tokenizers, and receives the others again', async () => {
    await using(encodeThread, async (lane) => {
      const tokenizers = Array.from({ length: 10 }, () => ({ ...bpe, recipe: { ...bpe.recipe } }) as Tokenizer);
      for (const tokenizer of [...tokenizers, ...tokenizers]) {
        const { ids } = await lane.encode(job(tokenizer, 'Hello'), never());
        expect(ids).toEqual(bpe.encode('Hello'));
      }
    });
  });

  it('says what went wrong, and goes on', async () => {
    await using(encodeThread, async (lane, lost) => {
      const missing: Tokenizer = { ...bpe, recipe: { kind: 'general', path: join(folder, 'none.json') } };
      await expect(lane.encode(job(missing, 'x'), never())).rejects.toThrow(/encoding thread: .*none\.json/);
      expect((await lane.encode(job(bpe, 'Hello'), never())).ids).toEqual(bpe.encode('Hello'));
      expect(lost).toEqual([]);
    });
  });
});

describe('a lane with a thread', () => {
  it('tells clients why a tokenizer cannot be used for their text', async () => {
    const entry = await script(
      'refuses',
      "parentPort.on('message', ({ texts }) => parentPort.postMessage({ error: 'RangeError', refusal: texts[0] }));",
    );
    await using(entry, async (lane) => {
      await expect(lane.encode(job(bpe, 'costly'), never())).rejects.toMatchObject({ code: 'service_unavailable' });
      await expect(lane.encode(job(bpe, 'too-long'), never())).rejects.toMatchObject({ code: 'invalid_value' });
    });
  });

  it('fails the job of a thread that ends, tells why, and starts another for the next job', async () => {
    const entry = await script(
      'dies-once',
      `parentPort.on('message', ({ texts }) => {
        if (texts[0] === 'die') process.exit(7);
        if (texts[0] === 'throw') throw new Error('broken');
        parentPort.postMessage({ ids: Uint32Array.of(1), counts: [1] });
      });`,
    );
    await using(entry, async (lane, lost) => {
      await expect(lane.encode(job(bpe, 'die'), never())).rejects.toThrow('ended with code 7');
      await expect(lane.encode(job(bpe, 'throw'), never())).rejects.toThrow('broken');
      expect(await lane.encode(job(bpe, 'live'), never())).toMatchObject({ counts: [1] });
      expect(lost).toEqual(['the encoding thread ended with code 7', 'broken']);
    });
  });

  it('fails a job whose thread cannot start', async () => {
    await using(join(folder, 'nowhere.mjs'), async (lane) => {
      await expect(lane.encode(job(bpe, 'x'), never())).rejects.toThrow('nowhere.mjs');
    });
  });

  it('asks the thread to stop when its job is given up, and ends one that does not', async () => {
    const entry = await script(
      'waits',
      `parentPort.on('message', ({ texts }) => {
        if (texts[0] === 'deaf') { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }
        Atomics.wait(workerData.stop, 0, 0, 1);
        while (texts[0] === 'polite' && Atomics.load(workerData.stop, 0) === 0);
        parentPort.postMessage(texts[0] === 'polite' ? { error: 'stopped' } : { ids: Uint32Array.of(1), counts: [1] });
      });`,
    );
    const clock = new VirtualClock();
    await using(
      entry,
      async (lane, lost) => {
        const client = new AbortController();
        const polite = lane.encode(job(bpe, 'polite'), client.signal);
        client.abort();
        await expect(polite).rejects.toThrow('stopped');
        const second = new AbortController();
        const deaf = lane.encode(job(bpe, 'deaf'), second.signal);
        second.abort();
        const ended = expect(deaf).rejects.toThrow('stopped');
        await clock.advance(2000);
        await ended;
        expect(await lane.encode(job(bpe, 'x'), never())).toMatchObject({ counts: [1] });
        expect(lost).toEqual([]);
      },
      clock,
    );
  });

  it('fails the job under way when it is closed', async () => {
    const entry = await script('silent', `parentPort.on('message', () => undefined);`);
    await using(entry, async (lane) => {
      const asked = lane.encode(job(bpe, 'x'), never());
      const ended = expect(asked).rejects.toThrow('closed');
      await lane.close();
      await ended;
    });
  });
});
