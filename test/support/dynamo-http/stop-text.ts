import { requestBody } from './fields.ts';
import type { RecordedRow } from './records.ts';

/** The visible part of an answer that a stop string ends, and its cost. */
export interface StoppedText {
  /** One piece for each output that shows text or ends the answer. */
  readonly pieces: readonly string[];
  readonly tokens: number;
}

/**
 * Predicts the answer to a request with `min_tokens` and stop strings whose worker plays plain text. It searches token
 * by token (a byte is a token). Before `min_tokens`, no stop string counts. Returns undefined if the request lacks
 * these fields, or if no string occurs.
 */
export function stopText(row: RecordedRow): StoppedText | undefined {
  const { min_tokens: min, stop, include_stop_str_in_output: isShown } = requestBody(row);
  const stops = (typeof stop === 'string' ? [stop] : Array.isArray(stop) ? stop : []).filter(
    (one) => typeof one === 'string',
  );
  const steps = row.script?.steps ?? [];
  if (
    typeof min !== 'number' ||
    stops.length === 0 ||
    !steps.every(({ t }) => typeof t === 'string' && /^[\x20-\x7e]*$/.test(t))
  ) {
    return undefined;
  }
  const pieces: string[] = [];
  let tokens = 0;
  let searched = ''; // the text that may contain a stop string
  let shown = 0; // position in `searched`
  for (const { t = '' } of steps) {
    let piece = '';
    for (const letter of t) {
      tokens++;
      if (tokens < min) {
        piece += letter;
        continue;
      }
      searched += letter;
      const matched = stops.find((one) => searched.endsWith(one));
      if (matched !== undefined) {
        const end = searched.length - (isShown === true ? 0 : matched.length);
        return { pieces: [...pieces, piece + searched.slice(shown, Math.max(shown, end))], tokens };
      }
    }
    const free = isShown === true ? searched.length : heldFrom(searched, stops);
    piece += searched.slice(shown, Math.max(shown, free));
    shown = Math.max(shown, free);
    if (piece !== '') pieces.push(piece);
  }
  return undefined;
}

/** Returns where the longest end of `text` begins that may become a stop string. */
function heldFrom(text: string, stops: readonly string[]): number {
  for (let from = 0; from < text.length; from++) if (stops.some((one) => one.startsWith(text.slice(from)))) return from;
  return text.length;
}
