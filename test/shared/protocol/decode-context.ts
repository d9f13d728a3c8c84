import { seededRandom } from '../../../shared/clock/index.ts';
import { type DecodeContext, LeftOut, type OpenAiDecodeSettings } from '../../../shared/protocol/index.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';

/** A decode context with these headers and settings; warnings are collected. */
export function contextWith(
  headers: Readonly<Record<string, string>> = {},
  settings: Partial<OpenAiDecodeSettings> = {},
): DecodeContext & { readonly warnings: string[] } {
  const warnings: string[] = [];
  return {
    headers: { headerNames: () => Object.keys(headers), header: (name) => headers[name] },
    settings: { ...defaultHttpSettings.decode, ...settings },
    random: seededRandom(1),
    leftOut: new LeftOut(),
    warn: (message) => void warnings.push(message),
    warnings,
  };
}
