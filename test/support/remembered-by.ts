import { getEventListeners } from 'node:events';

/**
 * Counts the listeners of a signal and the signals that `AbortSignal.any` made from it. Node forgets neither by itself.
 */
export function rememberedBy(signal: AbortSignal): number {
  const symbol = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals');
  const dependants: { readonly size: number } | undefined = symbol && Reflect.get(signal, symbol);
  return getEventListeners(signal, 'abort').length + (dependants?.size ?? 0);
}
