import { Markers } from '../../markers.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region } from '../format.ts';
import { type Parsing, showUntil, type TextSource } from '../scan.ts';

/** Markup of calls between a start marker and one of its end markers. */
export interface ClosedMarkup {
  readonly start: string;
  readonly ends: readonly string[];
  /** Beginnings of bodies; text may stand before a body. */
  readonly bodyStarts: readonly string[];
  /** Markers that end the text between calls. */
  readonly stops: Markers;
}

export function closedMarkup(markup: Omit<ClosedMarkup, 'stops'>): ClosedMarkup {
  const { start, ends, bodyStarts } = markup;
  return { ...markup, stops: new Markers([...ends, start, ...bodyStarts]) };
}

/**
 * Reads from after a start marker to an end marker. Shows text that is not part of a call. If there is neither a call
 * nor an empty list between the two markers, all of it is text, the markers included.
 *
 * @param readBodies reads the calls that stand here and shows other text; returns true if the last body was an empty
 * list
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
