import { requestBody, scriptText } from './fields.ts';
import type { RecordedRow } from './records.ts';

/** The text of the worker as far as `max_tokens` lets it come: a byte is a token. */
function heardText(row: RecordedRow): string {
  const body = requestBody(row);
  const most = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  const text = scriptText(row) ?? '';
  return typeof most === 'number' ? Buffer.from(text).subarray(0, most).toString() : text;
}

/** The worker says something before its first call. */
export function speaksFirst(row: RecordedRow): boolean {
  const text = heardText(row).replace(/^<think>.*?<\/think>/s, '');
  return text.includes('<tool_call>') && !/^\s*<tool_call>/.test(text);
}

/** The arguments so far of a call inside of which the text ends; undefined when it ends elsewhere. */
export function cutCall(row: RecordedRow): string | undefined {
  const last = heardText(row).split('<tool_call>').slice(1).at(-1);
  if (last === undefined || last.includes('</tool_call>')) return undefined;
  const [, soFar] = /"(?:arguments|parameters)"\s*:\s*(\S.*)$/s.exec(last) ?? [];
  return soFar === undefined || isWholeJson(soFar) ? undefined : soFar;
}

/** A value, perhaps with what closes the call behind it. */
function isWholeJson(text: string): boolean {
  for (const end of [text.length, text.lastIndexOf('}')]) {
    try {
      JSON.parse(text.slice(0, end));
      return true;
    } catch {
      // not the whole of it
    }
  }
  return false;
}
