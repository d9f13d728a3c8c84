import { readFileSync } from 'node:fs';

/** A record of discovery, as a worker of Dynamo 1.6.1 or a router of it wrote it. */
export interface RecordedRecord {
  readonly kind: 'record';
  readonly bucket: 'v1/event_channels' | 'v1/event_sources';
  readonly key: string;
  readonly text: string;
}

/** A message on the ZeroMQ event plane: publisher, sequence and body, in hex. */
export interface RecordedMessage {
  readonly kind: 'message';
  readonly topic: 'kv-events' | 'kv_metrics' | 'active_sequences_events';
  readonly frames: readonly [publisherId: string, sequence: string, body: string];
}

/** The answer to a recovery query: bodies of its frames, in hex. */
export interface RecordedAnswer {
  readonly kind: 'answer';
  /** First event that was asked for; null = all blocks. */
  readonly start: number | null;
  readonly bodies: readonly string[];
}

type Recorded = RecordedRecord | RecordedMessage | RecordedAnswer;

/**
 * One mock worker of Dynamo 1.6.1 with 40 blocks of 16 tokens behind Dynamo's frontend in mode `kv` with replica sync:
 * 22 chats, whose prompts share beginnings and overflow the cache. All KV events and the first of the other messages
 * are kept. The answers were asked for afterwards.
 */
export const RECORDED: readonly Recorded[] = readFileSync(
  new URL('../../../fixtures/dynamo/events-1.6.1.jsonl', import.meta.url),
  'utf8',
)
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded);

export function recordedMessages(topic: RecordedMessage['topic']): readonly RecordedMessage[] {
  return RECORDED.filter((each) => each.kind === 'message').filter((each) => each.topic === topic);
}

export function recordedAnswer(start: number | null): RecordedAnswer {
  const found = RECORDED.filter((each) => each.kind === 'answer').find((each) => each.start === start);
  if (found === undefined) throw new Error(`no answer from ${start} on is recorded`);
  return found;
}
