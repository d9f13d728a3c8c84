import { seededRandom } from '../../../shared/clock/index.ts';
import {
  type DecodeContext,
  defaultDecodeSettings,
  type OpenAiDecodeSettings,
} from '../../../shared/protocol/openai/index.ts';

/** A decode context with these headers and settings; warnings are collected. */
export function contextWith(
  headers: Readonly<Record<string, string>> = {},
  settings: Partial<OpenAiDecodeSettings> = {},
): DecodeContext & { readonly warnings: string[] } {
  const warnings: string[] = [];
  return {
    headers: { headerNames: () => Object.keys(headers), header: (name) => headers[name] },
    settings: { ...defaultDecodeSettings, ...settings },
    random: seededRandom(1),
    warn: (message) => void warnings.push(message),
    warnings,
  };
}
