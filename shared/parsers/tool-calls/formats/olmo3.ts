import { Markers } from '../../markers.ts';
import { countedId } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { collectUntil } from '../scan.ts';
import { showCalls } from './pythonic.ts';

const PROSE = new Markers(['<function_calls>']);
const CLOSED = new Markers(['</function_calls>']);

/**
 * Format `name(key=value)` on lines of their own between two markers; the second marker may be missing at the end of
 * the text.
 */
export const olmo3: ToolCallFormat = {
  newId: countedId,
  finder: () => PROSE,
  *read(marker, source, calls) {
    source.record(marker);
    const { text } = yield* collectUntil(source, CLOSED);
    const record = source.takeRecord();
    if (text.trim() !== '') return showCalls(`[${text}]`, true, calls, record);
    calls.content(record);
    return 'text';
  },
};
