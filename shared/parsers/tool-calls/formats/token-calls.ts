import type { CallWriter } from '../call-writer.ts';
import type { Region } from '../format.ts';
import { type Parsing, readOneOfBehindSpace, type TextSource } from '../scan.ts';
import { type ClosedMarkup, closedMarkup, readClosed } from './closed-markup.ts';

/** Markers of calls that begin with a marker of their own, in a block or without one. */
export interface CallMarkers {
  readonly call: string;
  readonly ends: readonly string[];
  /** Markup of blocks, by start marker. */
  readonly blocks: ReadonlyMap<string, ClosedMarkup>;
}

/** Creates the markers. @param ends end markers; any of them ends a block, whichever marker started it */
export function callMarkers(call: string, starts: readonly string[], ends: readonly string[]): CallMarkers {
  const bodyStarts = [call];
  return { call, ends, blocks: new Map(starts.map((start) => [start, closedMarkup({ start, ends, bodyStarts })])) };
}

/**
 * Reads calls from after the first marker: those of a block, or calls without a block. Any other marker is a stray end,
 * and is left out.
 * @param readOne reads a call; text that is not a call stays in the record
 */
export function* readMarkedCalls(
  markers: CallMarkers,
  marker: string,
  source: TextSource,
  calls: CallWriter,
  readOne: () => Parsing,
): Parsing<Region> {
  const { call } = markers;
  if (marker === call) return yield* readBareCalls(markers, source, calls, readOne);
  const block = markers.blocks.get(marker);
  if (block === undefined) return 'markup';
  return yield* readClosed(block, source, calls, function* () {
    while ((yield* readOneOfBehindSpace(source, [call])) !== undefined) {
      if (!source.isRecording) source.record(call);
      yield* readOne();
      calls.content(source.takeRecord());
    }
    return false;
  });
}

function* readBareCalls(
  { call, ends }: CallMarkers,
  source: TextSource,
  calls: CallWriter,
  readOne: () => Parsing,
): Parsing<Region> {
  for (;;) {
    source.record(call);
    const before = calls.readCount;
    yield* readOne();
    calls.content(source.takeRecord());
    if (calls.readCount === before) return 'text';
    const next = yield* readOneOfBehindSpace(source, [call, ...ends]);
    if (next !== call) return 'markup';
  }
}
