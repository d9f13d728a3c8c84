import { LIMITS, overLimit } from '../../errors/index.ts';
import type { ChatBody } from './chat-schema.ts';
import { invalidValue } from './field-checks.ts';

const FUNCTION_NAME = /^[A-Za-z0-9_-]+$/;

/** Bounds of `tools` and `tool_choice`. */
export function checkTools(body: ChatBody): void {
  const { tools } = body;
  if (tools != null) {
    if (tools.length === 0) {
      throw invalidValue('tools array cannot be empty; omit the field entirely to disable tool use', 'tools');
    }
    if (tools.length > LIMITS.tools.max) {
      const message = `tools array cannot hold more than ${LIMITS.tools.max} entries, got ${tools.length}`;
      throw overLimit('tools', message, { param: 'tools' });
    }
    for (let at = 0; at < tools.length; at++) checkTool(tools[at]!.function, at, `tools[${at}].function`);
  }
  checkToolChoice(body);
}

type ToolFunction = Pick<NonNullable<ChatBody['tools']>[number]['function'], 'name' | 'parameters' | 'strict'>;

/** The name and the schema of the tool number `at`, which stands at `param` of the body. */
export function checkTool(tool: ToolFunction, at: number, param: string): void {
  if (tool.name === '') throw invalidValue(`Function name at index ${at} cannot be empty`, `${param}.name`);
  if (!FUNCTION_NAME.test(tool.name)) {
    throw invalidValue(
      `Function at index ${at} has an invalid name: "${tool.name}". ` +
        'Only a-z, A-Z, 0-9, underscores, and dashes are allowed.',
      `${param}.name`,
    );
  }
  if (tool.strict !== true) return;
  const offender = findOpenObject(tool.parameters, '#');
  if (offender !== undefined) {
    throw invalidValue(
      `Invalid schema for function '${tool.name}': In context=${offender}, ` +
        'object schemas require additionalProperties: false',
      `${param}.parameters`,
    );
  }
}

/** Where in a JSON schema an object allows properties it does not name; undefined = nowhere. */
function findOpenObject(schema: unknown, context: string): string | undefined {
  if (Array.isArray(schema)) {
    for (let at = 0; at < schema.length; at++) {
      const offender = findOpenObject(schema[at], `${context}/${at}`);
      if (offender !== undefined) return offender;
    }
    return undefined;
  }
  if (typeof schema !== 'object' || schema === null) return undefined;
  const record = schema as Readonly<Record<string, unknown>>;
  if (record.type === 'object' && record.additionalProperties !== false) return context;
  for (const [key, nested] of Object.entries(record)) {
    const offender = findOpenObject(nested, `${context}/${key}`);
    if (offender !== undefined) return offender;
  }
  return undefined;
}

function checkToolChoice(body: ChatBody): void {
  const choice = body.tool_choice;
  if (choice === 'required' && (body.tools == null || body.tools.length === 0)) {
    throw invalidValue('tool_choice is "required" but tools is empty', 'tool_choice');
  }
  if (choice == null || typeof choice === 'string') return;
  const { name } = choice.function;
  if (body.tools?.some((tool) => tool.function.name === name)) return;
  throw invalidValue(`tool named "${name}" in tool_choice is not present in tools`, 'tool_choice');
}
