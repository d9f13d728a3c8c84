import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import { PolledEvents } from '../../../../shared/engines/trtllm/polled-events.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { hashBlocks } from '../../../../shared/tokens/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

type Answer = { readonly status: number; readonly text: string } | Error;

/** Polls a server that gives `answers` one after the other, and nothing from then on. */
async function follow(...answers: readonly Answer[]) {
  const left = [...answers];
  const clock = new VirtualClock();
  const { logger, lines } = captureLogger();
  const told: KvEvent[] = [];
  let dropped = 0;
  let asked = 0;
  const server = {
    ask: async () => {
      asked++;
      const answer = left.shift() ?? { status: 200, text: '[]' };
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const onDropped = (count: number): void => {
    dropped += count;
  };
  const feed = new PolledEvents({ server, blockSizeTokens: 4, clock, logger, onDropped, onCame: () => {} });
  feed.listen((events) => told.push(...events));
  await feed.open();
  await clock.advance(10_000);
  await feed.close();
  return { told, dropped, asked, problems: lines.map(({ fields }) => fields.problem) };
}

const answer = (...events: readonly string[]): Answer => ({ status: 200, text: `[${events}]` });
const event = (id: number, data: string, more = ''): string => `{"event_id":${id},"data":${data}${more}}`;
const block = (hash: string, ids: readonly number[], extra = 0): string =>
  `{"block_hash":${hash},"cache_level":0,"tokens":[${ids.map((id) => `{"token_id":${id},"token_extra_id":${extra}}`)}]}`;
const stored = (parent: string, ...blocks: readonly string[]): string =>
  `{"type":"stored","parent_hash":${parent},"blocks":[${blocks}]}`;
const removed = (...hashes: readonly string[]): string => `{"type":"removed","block_hashes":[${hashes}]}`;
const LARGE = '18446744073709551615';
const pairsOf = ({ blockHashes }: Extract<KvEvent, { kind: 'stored' | 'removed' }>): number[] => [...blockHashes];

describe('the KV events of TensorRT-LLM', () => {
  it('name blocks as the engine does, to the last digit, and their tokens as routers do', async () => {
    const ids = [1, 2, 3, 4, 5, 6, 7, 8];
    const first = event(0, stored('null', block(LARGE, ids.slice(0, 4)), block('7', ids.slice(4))));
    const { told, dropped } = await follow(answer(first, event(1, removed('7'))), answer(event(2, removed(LARGE))));
    expect(told.map(({ kind }) => kind)).toEqual(['stored', 'removed', 'removed']);
    const [one, two, three] = told as Extract<KvEvent, { kind: 'stored' }>[];
    expect(pairsOf(one!)).toEqual([0xffff_ffff, 0xffff_ffff, 7, 0]);
    expect(one!.tokensHashes).toEqual(hashBlocks(Uint32Array.from(ids), { blockSizeTokens: 4 }).local);
    expect([pairsOf(two!), pairsOf(three!)]).toEqual([
      [7, 0],
      [0xffff_ffff, 0xffff_ffff],
    ]);
    expect(dropped).toBe(0);
  });

  it('leave out blocks that are not full, when they are stored and when they go', async () => {
    const first = event(0, stored('null', block('1', [1, 2, 3, 4]), block('2', [5])));
    const { told } = await follow(answer(first, event(1, removed('2')), event(2, removed('1'))));
    expect(told.map((each) => [each.kind, pairsOf(each as Extract<KvEvent, { kind: 'removed' }>)])).toEqual([
      ['stored', [1, 0]],
      ['removed', [1, 0]],
    ]);
  });

  it('are those of the cache that holds whole prefixes, where layers have several', async () => {
    const windows = [
      event(0, '{"type":"created"}', ',"window_size":128'),
      event(1, '{"type":"created"}', ',"window_size":4096'),
    ];
    const one = event(2, stored('null', block('1', [1, 2, 3, 4])), ',"window_size":128');
    const other = event(3, stored('null', block('2', [1, 2, 3, 4])), ',"window_size":4096');
    const { told } = await follow(answer(...windows, one, other));
    expect(told.map((each) => pairsOf(each as Extract<KvEvent, { kind: 'stored' }>))).toEqual([[2, 0]]);
  });

  it.each([
    [
      'a gap of their numbers',
      [answer(event(5, stored('null', block('2', [1, 2, 3, 4]))))],
      4,
      /event_buffer_max_size/,
    ],
    [
      'an answer that was lost',
      [new Error('reset'), answer(event(1, stored('null', block('2', [1, 2, 3, 4]))))],
      1,
      /reset/,
    ],
  ])('forget what may not be held any more after %s', async (_, later, lost, problem) => {
    const { told, dropped, problems } = await follow(
      answer(event(0, stored('null', block('1', [1, 2, 3, 4])))),
      ...later,
    );
    expect(told.map(({ kind }) => kind)).toEqual(['stored', 'cleared', 'stored']);
    expect(dropped).toBe(lost);
    expect(problems).toEqual([expect.stringMatching(problem)]);
  });

  it.each([
    ['blocks of another size', block('1', [1, 2, 3, 4, 5]), 'block size 5, not 4: give --block-size'],
    ['tokens of media', block('1', [1, 2, 3, 4], 9), 'of an unknown form'],
  ])('that cannot be used are counted and said once: %s', async (_, odd, says) => {
    const { told, dropped, problems } = await follow(
      answer(event(0, stored('null', odd)), event(1, stored('null', odd))),
    );
    expect([told, dropped]).toEqual([[], 2]);
    expect(problems).toEqual([`events dropped: ${says}`]);
  });

  it('are not asked for again where the server has none', async () => {
    const { asked, problems } = await follow({ status: 404, text: '' });
    expect(asked).toBe(1);
    expect(problems).toEqual(['the engine has no /kv_cache_events: prompts are routed only by load']);
  });
});
