import type { Clock } from '../../shared/clock/index.ts';
import {
  type HeldNote,
  type HeldNotes,
  NOTE_KEPT_MS,
  NOTE_LIVE_MS,
  type PlannedName,
} from '../../shared/planner/held/types.ts';
import { groupOf } from '../../shared/protocol/index.ts';

/** Notes within one process, for tests. */
export class MemoryHeldNotes implements HeldNotes {
  readonly name = 'memory';
  readonly #clock: Clock;
  /** By group, then by holder. */
  readonly #notes = new Map<string, Map<string, HeldNote & { readonly atMs: number }>>();
  /** Number of calls that changed something. */
  writes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async put(holder: string, note: HeldNote, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.writes++;
    const notes = this.#notes.get(groupOf(note)) ?? new Map();
    this.#notes.set(groupOf(note), notes.set(holder, { ...note, atMs: this.#clock.wallMs() }));
  }

  async remove(holder: string, model: PlannedName, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.writes++;
    this.#notes.get(groupOf(model))?.delete(holder);
  }

  async live(group: string, signal: AbortSignal): Promise<readonly HeldNote[]> {
    signal.throwIfAborted();
    const nowMs = this.#clock.wallMs();
    const notes = this.#notes.get(group) ?? new Map<string, HeldNote & { readonly atMs: number }>();
    for (const [holder, { atMs }] of notes) if (nowMs - atMs > NOTE_KEPT_MS) notes.delete(holder);
    return [...notes.values()]
      .filter(({ atMs }) => nowMs - atMs < NOTE_LIVE_MS)
      .map(({ atMs: _atMs, ...note }) => note);
  }

  async close(): Promise<void> {}
}
