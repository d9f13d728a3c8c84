import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Height of one row in pixels, as the style sheet says. */
export const ROW = 30;
/** Rows drawn beyond each edge of what is visible. */
const BEYOND = 10;
/** New rows drawn in one frame: with their layout and paint, 44 at once took 40 ms of a busy machine. */
const NEW_ROWS_MAX = 12;

/** A row that keeps its number while others come and go. */
interface Numbered {
  readonly number: number;
}

/** Indexes from `from` until before `to`. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** Rows to draw now, and those to draw in the end. */
export interface Drawn {
  readonly now: Range;
  readonly wanted: Range;
  /** Looks again which rows are in sight. */
  readonly look: () => void;
}

/** Chooses the rows of a long list that are drawn: those in sight first, and a few new ones in each frame. */
export function useDrawn(box: RefObject<HTMLElement | null>, rows: readonly Numbered[]): Drawn {
  const [sight, setSight] = useState<Range>({ from: 0, to: 20 });
  const [, setFrame] = useState(0);
  const known = useRef<ReadonlySet<number>>(new Set()); // numbers of the rows that the document has
  const look = (): void => {
    if (box.current === null) return;
    const { scrollTop: top, clientHeight: height } = box.current;
    const next = { from: Math.floor(top / ROW), to: Math.ceil((top + height) / ROW) };
    setSight((before) => (before.from === next.from && before.to === next.to ? before : next));
  };
  useEffect(() => {
    look();
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, []);
  const inSight = { from: Math.min(sight.from, rows.length), to: Math.min(sight.to, rows.length) };
  const wanted = { from: Math.max(0, inSight.from - BEYOND), to: Math.min(rows.length, inSight.to + BEYOND) };
  const now = drawable(rows, inSight, wanted, known.current);
  useLayoutEffect(() => {
    known.current = new Set(rows.slice(now.from, now.to).map(({ number }) => number));
    if (now.from === wanted.from && now.to === wanted.to) return undefined;
    return afterFrame(() => setFrame((before) => before + 1));
  });
  return { now, wanted, look };
}

/** Calls a function once the next frame is drawn. Returns a function that ends the wait. */
function afterFrame(act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const frame = requestAnimationFrame(() => {
    timer = setTimeout(act); // the frame's own task still lays out and paints
  });
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}

/** Returns the rows around the first one in sight that bring at most NEW_ROWS_MAX new ones. */
function drawable(rows: readonly Numbered[], inSight: Range, wanted: Range, known: ReadonlySet<number>): Range {
  let [{ from }, left] = [inSight, NEW_ROWS_MAX];
  let to = from;
  const canDraw = (at: number): boolean => known.has(rows[at]!.number) || left-- > 0;
  while (to < wanted.to && canDraw(to)) to++;
  while (from > wanted.from && canDraw(from - 1)) from--;
  return { from, to };
}
