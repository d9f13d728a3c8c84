import type { Finder } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { convertByType } from '../parameter-values.ts';
import { collectUntil, type Parsing, type TextSource } from '../scan.ts';
import { isName, PairStream, type PairTags, pairTags } from './pair-calls.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

/** Tag of a block or of a call. All tags of a model have the same suffix, which its vocabulary chooses. */
const TAG = /<\/?tool_calls?(?::[\w.-]{1,32})?>/y;
/** Tag that the end of the text has cut off, without its bracket and slash. */
const OPEN_TAG = /^tool_calls?(?::[\w.-]{0,32})?$/;
const SUFFIX = /:[^>]+(?=>)/;

const PROSE: Finder = {
  find: (text, from, isComplete) => {
    for (let at = text.indexOf('<', from); at >= 0; at = text.indexOf('<', at + 1)) {
      if (matchTag(text, at) !== undefined || (!isComplete && isCutOff(text.slice(at)))) return at;
    }
    return text.length;
  },
  match: matchTag,
};

function matchTag(text: string, at: number): string | undefined {
  TAG.lastIndex = at;
  return TAG.exec(text)?.[0];
}

function isCutOff(tail: string): boolean {
  if (tail.length > TAG_UNITS_MAX) return false;
  const name = tail.slice(tail[1] === '/' ? 2 : 1);
  return 'tool_calls'.startsWith(name) || OPEN_TAG.test(name);
}

/** Length limit of a tag: its name, a suffix and four more characters. */
const TAG_UNITS_MAX = 46;

/**
 * Format `<tool_calls><tool_call>NAME<tool_sep><arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>
 * </tool_calls>` of Hunyuan 3, whose tags may have a suffix, such as `<tool_call:opensource>`. Hunyuan 4 has no
 * `<tool_sep>`.
 */
export const hunyuan: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: ['<tool_calls>', '<tool_call>'],
  finder: () => PROSE,
  read: (marker, source, calls, tools) => {
    const suffix = SUFFIX.exec(marker)?.[0] ?? '';
    const block = `<tool_calls${suffix}>`;
    const blockEnd = `</tool_calls${suffix}>`;
    const tags = pairTags({
      call: `<tool_call${suffix}>`,
      callEnd: `</tool_call${suffix}>`,
      key: `<arg_key${suffix}>`,
      keyEnd: `</arg_key${suffix}>`,
      value: `<arg_value${suffix}>`,
      valueEnd: `</arg_value${suffix}>`,
      blockEnd,
      areTokens: true,
    });
    const markers = callMarkers(tags.call, [block], [blockEnd]);
    const separator = `<tool_sep${suffix}>`;
    return readMarkedCalls(markers, marker, source, calls, () => readCall(tags, separator, source, calls, tools));
  },
};

/** Reads a call from after its start to its end; text that is not a call stays in the record. */
function* readCall(
  tags: PairTags,
  separator: string,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing {
  const { text, marker } = yield* collectUntil(source, tags.inCall);
  const name = text.replace(separator, '').trim();
  const isCall = isName(name) && (marker === tags.key || marker === tags.callEnd);
  if (isCall) yield* new PairStream(tags, source, calls, tools, convertByType).read({ name, first: marker });
  else if (marker !== undefined && marker !== tags.callEnd) source.unread(marker);
}
