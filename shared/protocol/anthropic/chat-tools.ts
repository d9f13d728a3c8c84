import { ServeError } from '../../errors/index.ts';
import type { ToolChoice, ToolDefinition } from '../generation/index.ts';
import { invalidValue } from '../openai/field-checks.ts';
import { checkTool } from '../openai/tool-checks.ts';
import type { CountTokensBody, ToolParam } from './messages-schema.ts';

/**
 * The client tools of a Messages body as functions; undefined when there are none.
 * @throws ServeError `unsupported_parameter` for server tools, `missing_required_parameter`, `invalid_value`.
 */
export function chatTools(tools: CountTokensBody['tools']): readonly ToolDefinition[] | undefined {
  return tools == null || tools.length === 0 ? undefined : tools.map(chatTool);
}

function chatTool(tool: ToolParam, at: number): ToolDefinition {
  const param = `tools[${at}]`;
  if (tool.type != null && tool.type !== 'custom') {
    const message = `${param}: server tool type "${tool.type}" is not supported`;
    throw new ServeError('unsupported_parameter', message, { param: `${param}.type` });
  }
  if (tool.name == null) throw missing(`${param}.name`, 'field required');
  const { name, description, input_schema: parameters, strict } = tool;
  if (parameters == null) throw missing(`${param}.input_schema`, 'field required for client tools');
  if (typeof parameters !== 'object' || Array.isArray(parameters)) {
    throw invalidValue(`${param}.input_schema: must be a JSON schema object`, `${param}.input_schema`);
  }
  checkTool({ name, parameters, strict }, at, param);
  return {
    type: 'function',
    function: {
      name,
      ...(description == null ? {} : { description }),
      parameters,
      ...(strict == null ? {} : { strict }),
    },
  };
}

/**
 * `tool_choice` in chat's terms; undefined leaves it to the model.
 * @throws ServeError 400 when the choice names no tool of `tools`.
 */
export function chatToolChoice(
  choice: CountTokensBody['tool_choice'],
  tools: readonly ToolDefinition[] | undefined,
): ToolChoice | undefined {
  if (choice == null) return undefined;
  if (choice.type === 'any') {
    if (tools === undefined) throw invalidValue('tool_choice: type "any" needs at least one tool', 'tool_choice');
    return 'required';
  }
  if (choice.type !== 'tool') return choice.type;
  const { name } = choice;
  if (name == null) throw missing('tool_choice.name', 'field required');
  if (tools?.some((tool) => tool.function.name === name) === true) return { name };
  throw invalidValue(`tool named "${name}" in tool_choice is not present in tools`, 'tool_choice.name');
}

/** A required field that is absent, in Anthropic's words. */
function missing(param: string, text: string): ServeError {
  return new ServeError('missing_required_parameter', `${param}: ${text}`, { param });
}
