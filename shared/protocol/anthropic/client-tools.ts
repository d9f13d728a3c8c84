import type { ToolDefinition } from '../generation/generation-request.ts';
import type { ToolParam } from './messages-schema.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Tool that Anthropic defines and its client executes, as a function that can be described to any model. */
interface ClientTool {
  /** Fixed name of the tool; clients send it too. */
  readonly name: string;
  readonly description: string;
  readonly parameters: Schema;
}

const text = (description: string): Schema => ({ type: 'string', description });
const whole = (description: string): Schema => ({ type: 'integer', description });
const pair = (description: string): Schema => ({
  type: 'array',
  items: { type: 'integer' },
  minItems: 2,
  maxItems: 2,
  description,
});
const oneOf = (values: readonly string[], description: string): Schema => ({
  type: 'string',
  enum: values,
  description,
});
const object = (properties: Schema, ...required: readonly string[]): Schema => ({
  type: 'object',
  properties,
  required,
});

const BASH: ClientTool = {
  name: 'bash',
  description: 'Runs commands in a bash shell that keeps its state between calls.',
  parameters: object({
    command: text('The command to run. Needed unless the shell is restarted.'),
    restart: { type: 'boolean', description: 'Starts the shell anew.' },
  }),
};

/**
 * Returns the editor of a version. Earlier versions had another name, could undo, and named the inserted text
 * differently.
 */
function textEditor(version: number): ClientTool {
  const isFirst = version < 20_250_429;
  const commands = ['view', 'create', 'str_replace', 'insert', ...(isFirst ? ['undo_edit'] : [])];
  return {
    name: isFirst ? 'str_replace_editor' : 'str_replace_based_edit_tool',
    description: 'Shows, creates and edits text files. `str_replace` replaces the one place where `old_str` stands.',
    parameters: object(
      {
        command: oneOf(commands, 'What to do.'),
        path: text('Absolute path of a file or a folder.'),
        file_text: text('For `create`: the content of the file.'),
        old_str: text('For `str_replace`: the text to replace, which must stand in the file exactly once.'),
        new_str: text(isFirst ? 'For `str_replace` and `insert`: the new text.' : 'For `str_replace`: the new text.'),
        ...(isFirst ? {} : { insert_text: text('For `insert`: the text to insert.') }),
        insert_line: whole('For `insert`: the line behind which the text is inserted; 0 = at the beginning.'),
        view_range: pair('For `view`: the first and the last line to show, from 1; a last line of -1 = to the end.'),
      },
      'command',
      'path',
    ),
  };
}

const MEMORY: ClientTool = {
  name: 'memory',
  description:
    'Keeps notes in files below /memories, which last from one conversation to the next. Look there before a task is begun.',
  parameters: object(
    {
      command: oneOf(['view', 'create', 'str_replace', 'insert', 'delete', 'rename'], 'What to do.'),
      path: text('Path below /memories.'),
      view_range: pair('For `view`: the first and the last line to show.'),
      file_text: text('For `create`: the content of the file.'),
      old_str: text('For `str_replace`: the text to replace.'),
      new_str: text('For `str_replace`: the new text.'),
      insert_line: whole('For `insert`: the line behind which the text is inserted.'),
      insert_text: text('For `insert`: the text to insert.'),
      old_path: text('For `rename`: the present path.'),
      new_path: text('For `rename`: the new path.'),
    },
    'command',
  ),
};

const ACTIONS = [
  'key',
  'type',
  'mouse_move',
  'left_click',
  'left_click_drag',
  'right_click',
  'middle_click',
  'double_click',
  'screenshot',
  'cursor_position',
];
const LATER_ACTIONS = ['left_mouse_down', 'left_mouse_up', 'scroll', 'hold_key', 'wait', 'triple_click'];

function computer(version: number, tool: ToolParam): ClientTool {
  const { display_width_px: width, display_height_px: height } = tool as Readonly<Record<string, unknown>>;
  const size =
    typeof width === 'number' && typeof height === 'number' ? ` The screen is ${width} x ${height} pixels.` : '';
  const zooms = version >= 20_251_124 && (tool as Readonly<Record<string, unknown>>).enable_zoom === true;
  const actions = [...ACTIONS, ...(version < 20_250_124 ? [] : LATER_ACTIONS), ...(zooms ? ['zoom'] : [])];
  return {
    name: 'computer',
    description: `Uses a computer by its screen, mouse and keyboard.${size} Take a screenshot to see what there is.`,
    parameters: object(
      {
        action: oneOf(actions, 'What to do.'),
        coordinate: pair('x and y in pixels from the top left corner: where to click, drag to, move or scroll.'),
        text: text('The text to type, or the keys to press, such as `ctrl+s`.'),
        ...(version < 20_250_124
          ? {}
          : {
              start_coordinate: pair('For `left_click_drag`: where it begins.'),
              duration: { type: 'number', description: 'For `wait` and `hold_key`: seconds.' },
              scroll_direction: oneOf(['up', 'down', 'left', 'right'], 'For `scroll`.'),
              scroll_amount: whole('For `scroll`: how many clicks of the wheel.'),
            }),
        ...(zooms
          ? {
              region: {
                type: 'array',
                items: { type: 'integer' },
                minItems: 4,
                maxItems: 4,
                description: 'For `zoom`: x and y of two corners.',
              },
            }
          : {}),
      },
      'action',
    ),
  };
}

const FAMILY = /^(bash|text_editor|computer|memory)_(\d{8})$/;

/** Returns the tool as a function, if it runs at the client; undefined for the types of hosted tools. */
export function clientTool(tool: ToolParam): ToolDefinition | undefined {
  const [, family, version = ''] = FAMILY.exec(tool.type ?? '') ?? [];
  const found = family === undefined ? undefined : ofFamily(family, Number(version), tool);
  if (found === undefined) return undefined;
  const { name, description, parameters } = found;
  return { type: 'function', function: { name: tool.name ?? name, description, parameters } };
}

function ofFamily(family: string, version: number, tool: ToolParam): ClientTool {
  if (family === 'bash') return BASH;
  if (family === 'memory') return MEMORY;
  return family === 'computer' ? computer(version, tool) : textEditor(version);
}
