import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

/** Format `<function_call> {"name": ..., "arguments": {...}}`, with the marker before each call. */
export const granite20bFc: ToolCallFormat = new JsonFamily({ starts: { '<function_call>': { kind: 'value' } } });
