import { requestBody, scriptText } from './fields.ts';
import type { RecordedRow } from './records.ts';

/** Returns the text of the worker up to `max_tokens`. Each byte is a token. */
function heardText(row: RecordedRow): string {
  const body = requestBody(row);
  const most = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  const text = scriptText(row) ?? '';
  return typeof most === 'number' ? Buffer.from(text).subarray(0, most).toString() : text;
}

/** Whether the worker writes text before its first call. */
export function speaksFirst(row: RecordedRow): boolean {
  const text = heardText(row).replace(/^<think>.*?<\/think>/s, '');
  return text.includes('<tool_call>') && !/^\s*<tool_call>/.test(text);
}

/** Returns the arguments so far of a call in which the text ends, or undefined if the text ends outside of a call. */
export function cutCall(row: RecordedRow): string | undefined {
  const last = heardText(row).split('<tool_call>').slice(1).at(-1);
  if (last === undefined || last.includes('</tool_call>')) return undefined;
  const [, soFar] = /"(?:arguments|parameters)"\s*:\s*(\S.*)$/s.exec(last) ?? [];
  return soFar === undefined || isWholeJson(soFar) ? undefined : soFar;
}

/** Whether `text` is a complete value, which the end of the call may follow. */
function isWholeJson(text: string): boolean {
  for (const end of [text.length, text.lastIndexOf('}')]) {
    try {
      JSON.parse(text.slice(0, end));
      return true;
    } catch {
      // incomplete
    }
  }
  return false;
}
