import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { TOOL_CALL_PARSER_SPELLINGS } from '../../../../shared/config/index.ts';
import { createToolCallParser } from '../../../../shared/parsers/index.ts';
import { TOOL_CALL_PARSER_NAMES } from '../../../../shared/parsers/tool-calls/registry.ts';
import type { ToolDefinition } from '../../../../shared/protocol/index.ts';
import { countNativeScans } from '../../../support/count-native-scans.ts';
import { takeSteps } from '../../../support/count-steps.ts';

const NAMES = TOOL_CALL_PARSER_NAMES.filter((name) => !Object.hasOwn(TOOL_CALL_PARSER_SPELLINGS, name));
/** Names that agree for long, all of them begun again and again by the texts. */
const TOOL_NAME = 'get_the_weather_of_';
const PROSE = `${'g'.repeat(200)} ${TOOL_NAME.repeat(20)} `;
const MARKUP = `${'<tool_call>ge'.repeat(20)} [${TOOL_NAME}(${TOOL_NAME}`;
const NO_SINK = { content: () => {}, callStart: () => {}, callArguments: () => {} };

function toolsOf(count: number): readonly ToolDefinition[] {
  return Array.from({ length: count }, (_, at) => ({
    type: 'function',
    function: { name: `${TOOL_NAME}${at}`, parameters: { type: 'object', properties: { a: { type: 'string' } } } },
  }));
}

/** What a text costs beyond what it costs to be told of the tools. */
async function costOf(name: string, text: string, toolCount: number, times: number): Promise<number> {
  const tools = toolsOf(toolCount);
  const parse = (): void => {
    const parser = createToolCallParser(name, { tools, toolChoice: 'auto', random: seededRandom(1) });
    for (let time = 0; time < times; time++) {
      for (let at = 0; at < text.length; at += 4) parser?.push(text.slice(at, at + 4), NO_SINK);
    }
    parser?.end('stop', NO_SINK);
  };
  await takeSteps();
  return countNativeScans(parse) + (await takeSteps());
}

describe.each(NAMES)('with eight times as many tools %s reads', (name) => {
  it.each([PROSE, MARKUP])('a text at no more cost, once it knows their names', async (text) => {
    await costOf(name, text, 256, 2); // what is done once a process does not count
    const growthOf = async (tools: number): Promise<number> =>
      (await costOf(name, text, tools, 2)) - (await costOf(name, text, tools, 1));
    const few = await growthOf(32);
    expect((await growthOf(256)) / few).toBeLessThan(1.2);
  });
});
