import { Markers } from '../../markers.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { writeJsonObject } from '../json-scan.ts';
import { convertByType, decodeEntities, type ToolSchemas } from '../parameter-values.ts';
import {
  collectUntil,
  type Parsing,
  readOneOfBehindSpace,
  readTagName,
  readUntil,
  type TextSource,
  unquote,
} from '../scan.ts';

const BLOCK = '<minimax:tool_call>';
const BLOCK_END = '</minimax:tool_call>';
const INVOKE = '<invoke name=';
const INVOKE_END = '</invoke>';
const PROSE = new Markers([BLOCK, INVOKE]);
const IN_BLOCK = new Markers([INVOKE, BLOCK_END]);
const IN_INVOKE = new Markers([INVOKE_END, BLOCK_END]);
const PARAMETER = '<parameter name=';
const PARAMETER_END = '</parameter>';

/**
 * `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`. Strict: what lacks its closing tag is dropped, so a call is shown when it is whole.
 */
export const minimaxM2: ToolCallFormat = {
  newId: prefixedUuid,
  finder: () => PROSE,
  *read(marker, source, calls, tools) {
    const isBare = marker === INVOKE;
    let stop = isBare ? INVOKE : yield* readUntil(source, IN_BLOCK);
    while (stop === INVOKE) {
      stop = yield* readInvoke(source, calls, tools);
      if (stop !== INVOKE_END) break;
      stop = isBare ? yield* readOneOfBehindSpace(source, [INVOKE, BLOCK_END]) : yield* readUntil(source, IN_BLOCK);
    }
    return 'markup';
  },
};

/** Reads from behind `<invoke name=` and returns the closing tag it stopped at. */
function* readInvoke(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<string | undefined> {
  const name = yield* readTagName(source);
  const { text, marker } = yield* collectUntil(source, IN_INVOKE);
  if (name !== undefined && marker === INVOKE_END) calls.whole(name, readArguments(text, name, tools));
  return marker;
}

function readArguments(body: string, tool: string, tools: ToolSchemas): string {
  const members = new Map<string, string>();
  let at = body.indexOf(PARAMETER);
  while (at >= 0) {
    const nameEnd = body.indexOf('>', at);
    const end = nameEnd < 0 ? -1 : body.indexOf(PARAMETER_END, nameEnd);
    if (end < 0) break;
    const key = unquote(body.slice(at + PARAMETER.length, nameEnd).trim());
    const value = decodeEntities(body.slice(nameEnd + 1, end).trim());
    members.set(key, convertByType(value, tools.parameter(tool, key)));
    at = body.indexOf(PARAMETER, end);
  }
  return writeJsonObject(members);
}
