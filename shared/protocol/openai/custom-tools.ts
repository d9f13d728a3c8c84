import { isRecord } from '../../records/index.ts';
import type { ToolDefinition } from '../generation/generation-request.ts';
import { shapeError } from './field-checks.ts';

/** Tool whose input is free text, as clients define it. */
interface CustomTool {
  readonly description?: string | null | undefined;
  readonly format?: Readonly<Record<string, unknown>> | null | undefined;
}

const SYNTAXES: ReadonlySet<unknown> = new Set(['lark', 'regex']);

/**
 * Checks the format of a custom tool. @param param place of the format @throws ServeError `invalid_value`,
 * `missing_required_parameter`
 */
export function checkCustomFormat(format: CustomTool['format'], param: string): void {
  if (format == null || format.type === 'text') return;
  if (format.type !== 'grammar') {
    const message = `${param}.type: expected "text" or "grammar", got ${shown(format.type)}`;
    throw shapeError('invalid_value', message, `${param}.type`);
  }
  const isNested = isRecord(format.grammar);
  const { syntax, definition } = grammarOf(format);
  const place = isNested ? `${param}.grammar` : param;
  if (!SYNTAXES.has(syntax)) {
    const message = `${place}.syntax: expected "lark" or "regex", got ${shown(syntax)}`;
    throw shapeError('invalid_value', message, `${place}.syntax`);
  }
  if (typeof definition === 'string' && definition !== '') return;
  throw shapeError('invalid_value', `${place}.definition: expected the text of a grammar`, `${place}.definition`);
}

/** Returns the grammar, which chats nest one level deeper than Responses. */
function grammarOf(format: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return isRecord(format.grammar) ? format.grammar : format;
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100);
}

/**
 * Returns a custom tool as a function whose one argument is the tool's text, because chat templates know only
 * functions.
 */
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

/** Describes the grammar to the model: no engine constrains a single argument to a grammar. */
function describeFormat(format: CustomTool['format']): string {
  if (format?.type !== 'grammar') return '';
  const { syntax, definition } = grammarOf(format);
  return `\`input\` must match this ${String(syntax)} grammar:\n${String(definition)}`;
}
