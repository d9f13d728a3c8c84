import { expect, it } from 'vitest';
import type { FrameSink } from '../../../shared/frontends/http/exchange/exchange.ts';
import { waitUntil } from '../../support/wait-until.ts';

/** The client's end of one response. */
export interface SinkClient {
  /** Pieces that arrived so far, as the network or stream delivered them, without framing and without the head. */
  pieces(): readonly string[];
  /** Status and headers, once they arrived. */
  head(): { readonly status: number; readonly headers: Readonly<Record<string, string>> } | undefined;
  /** Whether the response has ended as it should. */
  isComplete(): boolean;
  /** Stops reading, or starts again. New clients read. */
  setReading(isReading: boolean): void;
  /** Hangs up. */
  leave(): void;
}

export interface OpenSink {
  readonly sink: FrameSink;
  readonly client: SinkClient;
}

/** One host under test. */
export interface FrameSinkHost {
  /** A request that has arrived and waits for its answer. */
  open(): Promise<OpenSink>;
  close(): Promise<void>;
  /** Whether the host can see that a client left (docs/architecture.md). */
  readonly seesClientLeave: boolean;
  /** Whether bytes written in one go arrive in one piece. */
  readonly keepsWritesTogether: boolean;
}

const HEADERS = { 'content-type': 'text/event-stream', 'x-request-id': 'r1' };
const MEBIBYTE = 1024 * 1024;

/** Tests what every `FrameSink` must do (shared/frontends/http/exchange/exchange.ts). Call inside a `describe`. */
export function itKeepsTheFrameSinkContract(host: () => FrameSinkHost): void {
  const received = (client: SinkClient): string => client.pieces().join('');
  const openHead = async (status = 200): Promise<OpenSink> => {
    const opened = await host().open();
    opened.sink.head(status, HEADERS);
    return opened;
  };

  it('sends status and headers with the first frames', async () => {
    const { sink, client } = await openHead(201);
    sink.write('data: a\n\n');
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(client.head()?.status).toBe(201);
    expect(client.head()?.headers).toMatchObject(HEADERS);
    expect(received(client)).toBe('data: a\n\n');
  });

  it('sends all frames of one turn together', async () => {
    const { sink, client } = await openHead();
    sink.write('data: a\n\n');
    sink.write('data: b\n\n');
    sink.write('data: c\n\n');
    await waitUntil(() => client.pieces().length > 0);
    expect(received(client)).toBe('data: a\n\ndata: b\n\ndata: c\n\n');
    if (host().keepsWritesTogether) expect(client.pieces()).toHaveLength(1);
    sink.end();
  });

  it('sends frames of a later turn without waiting for the end', async () => {
    const { sink, client } = await openHead();
    sink.write('data: a\n\n');
    await waitUntil(() => received(client) === 'data: a\n\n');
    sink.write('data: b\n\n');
    await waitUntil(() => received(client) === 'data: a\n\ndata: b\n\n');
    expect(client.isComplete()).toBe(false);
    sink.end();
    await waitUntil(() => client.isComplete());
  });

  it('sends the head alone when flushed before the first frame', async () => {
    const { sink, client } = await openHead();
    sink.flush();
    await waitUntil(() => client.head() !== undefined);
    expect(received(client)).toBe('');
    sink.write('late');
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe('late');
  });

  it('ends a response that has no body', async () => {
    const { sink, client } = await openHead();
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe('');
  });

  it('keeps the order of text and bytes', async () => {
    const { sink, client } = await openHead();
    sink.write('a');
    sink.write(Buffer.from('bé'));
    sink.write('c');
    sink.write(new Uint8Array(0));
    sink.write(Buffer.from('d'));
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe('abécd');
  });

  it('carries characters of every width', async () => {
    const text = 'plain \u00e9 \u20ac \u{1f600} \u2028 end';
    const { sink, client } = await openHead();
    sink.write(text);
    await waitUntil(() => received(client) === text);
    sink.write(text);
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe(text + text);
  });

  it('carries frames larger than every buffer on the way', async () => {
    const frame = `${'x'.repeat(MEBIBYTE)}\u20ac`;
    const { sink, client } = await openHead();
    sink.write(frame);
    sink.write(frame);
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toHaveLength(2 * frame.length);
    expect(received(client).endsWith('x\u20ac')).toBe(true);
  });

  it('ignores writes, flushes and ends after the end', async () => {
    const { sink, client } = await openHead();
    sink.write('once');
    sink.end();
    sink.write('never');
    sink.flush();
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe('once');
    expect(sink.closed.aborted).toBe(false);
  });

  it('is new until its head is set', async () => {
    const { sink, client } = await host().open();
    expect(sink.isNew).toBe(true);
    sink.head(200, HEADERS);
    expect(sink.isNew).toBe(false);
    sink.end();
    await waitUntil(() => client.isComplete());
    expect(sink.isNew).toBe(false);
  });

  it('cuts an open answer off, so that it does not look whole', async () => {
    const { sink, client } = await openHead();
    const { closed } = sink;
    sink.write('half of ');
    sink.flush();
    await waitUntil(() => received(client) === 'half of ');
    sink.write('it');
    sink.breakOff(new Error('no words for it'));
    await waitUntil(() => closed.aborted);
    sink.write('never');
    sink.flush();
    sink.end();
    sink.breakOff(new Error('again'));
    await new Promise((resolve) => setImmediate(resolve));
    expect([received(client), client.isComplete()]).toEqual(['half of ', false]);
  });

  it('leaves an answer alone that has ended', async () => {
    const { sink, client } = await openHead();
    sink.write('whole');
    sink.end();
    sink.breakOff(new Error('too late'));
    await waitUntil(() => client.isComplete());
    expect(received(client)).toBe('whole');
    expect(sink.closed.aborted).toBe(false);
  });

  it.each([
    ['text', 'x'.repeat(MEBIBYTE)],
    ['bytes', Buffer.alloc(MEBIBYTE, 'x')],
  ])('is blocked by a slow reader of %s and says when it has caught up', async (_what, frame) => {
    const { sink, client } = await openHead();
    client.setReading(false);
    expect(sink.isBlocked()).toBe(false);
    await fillUntilBlocked(sink, frame);
    const unblocked = new Promise<void>((resolve) => sink.onUnblocked(resolve));
    client.setReading(true);
    await unblocked;
    await waitUntil(() => !sink.isBlocked());
    sink.end();
    await waitUntil(() => client.isComplete());
  });

  it('says at once that an idle sink is not blocked', async () => {
    const { sink } = await openHead();
    await new Promise<void>((resolve) => sink.onUnblocked(resolve));
    sink.end();
  });

  it('does not abort when the response ends and the client leaves', async () => {
    const { sink, client } = await openHead();
    const { closed } = sink;
    sink.write('all');
    sink.end();
    await waitUntil(() => client.isComplete());
    client.leave();
    expect(closed.aborted).toBe(false);
  });

  it('aborts when the client leaves before the first byte', async () => {
    if (!host().seesClientLeave) return;
    const { sink, client } = await host().open();
    const { closed } = sink;
    client.leave();
    await waitUntil(() => closed.aborted);
    sink.head(200, HEADERS);
    sink.write('nobody reads this');
    sink.end();
  });

  it('aborts when the client leaves in the middle, and takes no more', async () => {
    if (!host().seesClientLeave) return;
    const { sink, client } = await openHead();
    const { closed } = sink;
    sink.write('data: a\n\n');
    await waitUntil(() => client.pieces().length > 0);
    client.leave();
    await waitUntil(() => closed.aborted);
    sink.write('nobody reads this');
    sink.flush();
    sink.end();
    expect(sink.isBlocked()).toBe(false);
  });

  it('releases the producer that waits for a slow reader that leaves', async () => {
    if (!host().seesClientLeave) return;
    const { sink, client } = await openHead();
    client.setReading(false);
    await fillUntilBlocked(sink);
    const released = new Promise<void>((resolve) => sink.onUnblocked(resolve));
    client.leave();
    await released;
    sink.end();
  });
}

/** Fills every buffer on the way, until the sink stays blocked although time passes. */
async function fillUntilBlocked(sink: FrameSink, frame: string | Uint8Array = 'x'.repeat(MEBIBYTE)): Promise<void> {
  let blockedPolls = 0;
  await waitUntil(
    () => {
      blockedPolls = sink.isBlocked() ? blockedPolls + 1 : 0;
      if (blockedPolls === 0) sink.write(frame);
      return blockedPolls >= 10;
    },
    { pollMs: 5, what: 'the sink stays blocked' },
  );
}
