import { Markers } from '../../markers.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region } from '../format.ts';
import { type Parsing, showUntil, type TextSource } from '../scan.ts';

/** Calls between a start marker and one of its end markers. */
export interface ClosedMarkup {
  readonly start: string;
  readonly ends: readonly string[];
  /** How bodies begin: text may stand in front of one. */
  readonly bodyStarts: readonly string[];
  /** What ends the text between calls. */
  readonly stops: Markers;
}

export function closedMarkup(markup: Omit<ClosedMarkup, 'stops'>): ClosedMarkup {
  const { start, ends, bodyStarts } = markup;
  return { ...markup, stops: new Markers([...ends, start, ...bodyStarts]) };
}

/**
 * Reads from behind a start marker to an end marker. Text that is no part of a call is shown. Where neither calls nor a list
 * without any stand between the two, all of it is text, the markers too.
 *
 * @param readBodies reads the calls that stand here and shows what is none; true when the last of it was a list without calls
 */
export function* readClosed(
  markup: ClosedMarkup,
  source: TextSource,
  calls: CallWriter,
  readBodies: () => Parsing<boolean>,
): Parsing<Region> {
  const { start, bodyStarts, stops } = markup;
  let before = calls.readCount;
  source.record(start);
  for (;;) {
    const hasEmptyList = yield* readBodies();
    const stop = yield* showUntil(source, stops, calls);
    if (stop !== undefined && bodyStarts.includes(stop)) {
      source.unread(stop);
      continue;
    }
    const record = source.takeRecord();
    if (stop === undefined) {
      calls.content(record);
      return calls.readCount > before ? 'markup' : 'text';
    }
    const inside = record.slice(0, -stop.length);
    const isBlank = inside.trim() === start;
    if (!isBlank) calls.content(inside);
    if (stop !== start) {
      if (isBlank || hasEmptyList || calls.readCount > before) return 'markup';
      calls.content(stop);
      return 'text';
    }
    before = calls.readCount;
    source.record(start);
  }
}
