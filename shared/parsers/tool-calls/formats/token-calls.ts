import type { CallWriter } from '../call-writer.ts';
import type { Region } from '../format.ts';
import { type Parsing, readOneOfBehindSpace, type TextSource } from '../scan.ts';

/**
 * Reads calls that begin with a marker of their own and that nothing is around, from behind the first marker on.
 * @param readOne reads a call; what is none stays in the record
 */
export function* readBareCalls(
  markers: { readonly call: string; readonly ends: readonly string[] },
  source: TextSource,
  calls: CallWriter,
  readOne: () => Parsing,
): Parsing<Region> {
  for (;;) {
    source.record(markers.call);
    const before = calls.readCount;
    yield* readOne();
    calls.content(source.takeRecord());
    if (calls.readCount === before) return 'text';
    const next = yield* readOneOfBehindSpace(source, [markers.call, ...markers.ends]);
    if (next !== markers.call) return 'markup';
  }
}
