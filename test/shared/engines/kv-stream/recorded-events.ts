import { readFileSync } from 'node:fs';

/** A KV event message of a real vLLM (test/fixtures/engines/vllm-events/README.md). */
export interface RecordedEvent {
  readonly n: number;
  readonly source: string;
  readonly topic: string;
  readonly seq: number;
  readonly note: string;
  readonly payload: Buffer;
  /** `[time, events, rank]`; 64-bit hashes as decimal text, binary ones as 0x and hex. */
  readonly decoded: readonly [number, readonly unknown[], (number | null)?];
}

const FILE = new URL('../../../fixtures/engines/vllm-events/kv-events.jsonl', import.meta.url);

export function recordedEvents(): readonly RecordedEvent[] {
  const lines = readFileSync(FILE, 'utf8').trim().split('\n');
  return lines.map((line) => {
    // In the array layout hashes are bare numbers that no double holds.
    const exact = line.replace(/(?<=[[,] ?)\d{16,}(?=[,\]])/g, '"$&"');
    const record = JSON.parse(exact) as Omit<RecordedEvent, 'payload'> & { readonly payload: string };
    return { ...record, payload: Buffer.from(record.payload, 'hex') };
  });
}
