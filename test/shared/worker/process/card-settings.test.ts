import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeChatTemplate, openChatTemplate } from '../../../../shared/artifacts/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { cardSettings } from '../../../../shared/worker/process/worker.ts';

const UNSET = resolveConfig('worker', [], {}, { allowMissing: true }).settings;

describe('what an operator says on the card of a worker', () => {
  it('is what the operator named, and nothing else', () => {
    expect(cardSettings(UNSET)).toEqual({ endpointTypes: ['chat', 'completions'] });
    const named = {
      ...UNSET,
      endpointTypes: ['chat'],
      stableRoutingId: 'worker-0',
      toolCallParser: 'hermes',
      reasoningParser: 'qwen3',
      defaultThinkingMode: 'disabled',
      excludeToolsWhenToolChoiceNone: false,
    } as const;
    expect(cardSettings(named)).toEqual({
      tool_call_parser: 'hermes',
      reasoning_parser: 'qwen3',
      default_thinking_mode: 'disabled',
      exclude_tools_when_tool_choice_none: false,
      endpointTypes: ['chat'],
      stable_routing_id: 'worker-0',
    });
  });
});

describe("a chat template in place of the model's", () => {
  let folder: string;
  let path: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-template-'));
    path = join(folder, 'mine.jinja');
    await writeFile(path, '{{ messages }}');
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('is found where the worker has it, else in the folder of this process', async () => {
    const files = await describeChatTemplate(path);
    await expect(openChatTemplate({ modelName: 'm', files })).resolves.toBe('{{ messages }}');
    const [role, file] = Object.entries(files)[0]!; // the file just described
    const elsewhere = { [role]: { ...file, path: '/nowhere/mine.jinja' } };
    await expect(openChatTemplate({ modelName: 'm', files: elsewhere, modelPath: folder })).resolves.toBe(
      '{{ messages }}',
    );
  });

  it('is refused when it is absent or another', async () => {
    await expect(describeChatTemplate(join(folder, 'none'))).rejects.toThrow(/no such file; give a Jinja file/);
    const [role, file] = Object.entries(await describeChatTemplate(path))[0]!; // the file just described
    const files = { [role]: { ...file, checksum: 'sha256:0' } };
    await expect(openChatTemplate({ modelName: 'm', files })).rejects.toThrow(/model m: its chat template .* differs/);
  });

  it('is nothing when the card names none', async () => {
    await expect(openChatTemplate({ modelName: 'm', files: {} })).resolves.toBeUndefined();
  });
});
