import { isRecord } from '../../records/index.ts';
import type { ToolDefinition } from '../generation/generation-request.ts';

/** A tool whose input is text of any form, as clients define it. */
interface CustomTool {
  readonly description?: string | null | undefined;
  readonly format?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Chat templates know functions only: a custom tool's text becomes the one argument of a function. */
export function customFunction({ description, format }: CustomTool, name: string): ToolDefinition {
  const lines = [description ?? '', describeFormat(format)].filter((line) => line !== '');
  return {
    type: 'function',
    function: {
      name,
      ...(lines.length === 0 ? {} : { description: lines.join('\n\n') }),
      parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
    },
  };
}

/** No engine holds one argument to a grammar, so that the model is told of it. Chats have it one level deeper than Responses. */
function describeFormat(format: CustomTool['format']): string {
  if (format?.type !== 'grammar') return '';
  const { syntax, definition } = isRecord(format.grammar) ? format.grammar : format;
  return `\`input\` must match this ${String(syntax)} grammar:\n${String(definition)}`;
}
