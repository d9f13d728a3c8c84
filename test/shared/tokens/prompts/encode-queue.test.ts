import { describe, expect, it } from 'vitest';
import { EncodeQueue, type Lane } from '../../../../shared/tokens/prompts/encode-queue.ts';
import type { EncodedSegments, EncodeJob } from '../../../../shared/tokens/prompts/segments.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { letterTokenizer } from '../../pipeline/fixtures.ts';

/** A lane that does nothing until the test says so. */
class HandLane implements Lane {
  readonly jobs: { readonly text: string; readonly signal: AbortSignal; end(): void; fail(error: Error): void }[] = [];
  isClosed = false;

  encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedSegments> {
    return new Promise((resolve, reject) => {
      const [text = ''] = job.texts;
      this.jobs.push({
        text,
        signal,
        end: () => resolve({ ids: Uint32Array.of(text.length), counts: [1] }),
        fail: reject,
      });
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.jobs.at(-1)?.fail(new Error('closed'));
  }
}

function start({ lanesMax = 1, waitingMax = 2 } = {}) {
  const clock = new VirtualClock();
  const lanes: HandLane[] = [];
  const openLane = (): Lane => {
    const lane = new HandLane();
    lanes.push(lane);
    return lane;
  };
  const queue = new EncodeQueue({ clock, openLane, lanesMax, waitingMax, timeoutMs: 1000 });
  const ask = (text: string, signal?: AbortSignal) => {
    const job = { tokenizer: letterTokenizer, texts: [text], addSpecialTokens: false, enoughTokens: 10 };
    return queue.encode(job, signal).then(
      ({ ids }) => ids[0],
      (error: { code?: string; message: string }) => error.code ?? error.message,
    );
  };
  return { clock, lanes, queue, ask };
}

/** Lets every promise that is settled be seen. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the queue of long prompts', () => {
  it('opens a lane when there is work for one more, and gives jobs out in order', async () => {
    const { lanes, ask } = start({ lanesMax: 2 });
    expect(lanes).toHaveLength(0);
    const answers = Promise.all([ask('a'), ask('bb'), ask('ccc')]);
    await turn();
    expect(lanes.map(({ jobs }) => jobs.map(({ text }) => text))).toEqual([['a'], ['bb']]);
    lanes[1]!.jobs[0]!.end();
    await turn();
    expect(lanes[1]!.jobs[1]!.text).toBe('ccc');
    lanes[1]!.jobs[1]!.end();
    lanes[0]!.jobs[0]!.end();
    expect(await answers).toEqual([1, 2, 3]);
  });

  it('refuses a job as overload when too many wait', async () => {
    const { lanes, ask } = start();
    const answers = [ask('a'), ask('bb'), ask('ccc')];
    expect(await ask('dddd')).toBe('server_overloaded');
    for (let at = 0; at < 3; at++) {
      lanes[0]!.jobs[at]!.end();
      await turn();
    }
    expect(await Promise.all(answers)).toEqual([1, 2, 3]);
  });

  it('forgets a waiting job whose client has gone', async () => {
    const { lanes, ask } = start();
    const client = new AbortController();
    const first = ask('a');
    const gone = ask('bb', client.signal);
    client.abort(new Error('gone'));
    expect(await gone).toBe('gone');
    lanes[0]!.jobs[0]!.end();
    expect(await first).toBe(1);
    await turn();
    expect(lanes[0]!.jobs).toHaveLength(1);
    expect(await ask('c', client.signal)).toBe('gone');
  });

  it('stops a job under way whose client has gone, and uses the lane again only after it has stopped', async () => {
    const { lanes, ask } = start();
    const client = new AbortController();
    const gone = ask('a', client.signal);
    const next = ask('bb');
    await turn();
    client.abort(new Error('gone'));
    expect(await gone).toBe('gone');
    expect(lanes[0]!.jobs[0]!.signal.aborted).toBe(true);
    expect(lanes[0]!.jobs).toHaveLength(1);
    lanes[0]!.jobs[0]!.fail(new Error('stopped'));
    await turn();
    lanes[0]!.jobs[1]!.end();
    expect(await next).toBe(2);
  });

  it('gives a job up at its deadline, waiting or under way', async () => {
    const { clock, lanes, ask } = start();
    const answers = Promise.all([ask('a'), ask('bb')]);
    await clock.advance(1000);
    expect(await answers).toEqual(['deadline_exceeded', 'deadline_exceeded']);
    expect(lanes[0]!.jobs[0]!.signal.aborted).toBe(true);
  });

  it('goes on after a job that failed', async () => {
    const { lanes, ask } = start();
    const answers = Promise.all([ask('a'), ask('bb')]);
    await turn();
    lanes[0]!.jobs[0]!.fail(new Error('broken'));
    await turn();
    lanes[0]!.jobs[1]!.end();
    expect(await answers).toEqual(['broken', 2]);
  });

  it('fails what waits and what is under way when it closes, and takes nothing more', async () => {
    const { lanes, queue, ask } = start();
    const answers = Promise.all([ask('a'), ask('bb')]);
    await turn();
    await queue.close();
    expect(lanes[0]!.isClosed).toBe(true);
    expect(await answers).toEqual(['closed', 'service_unavailable']);
    expect(await ask('c')).toBe('service_unavailable');
  });
});
