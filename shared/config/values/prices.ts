import { type InstancePrice, instancePriceType } from './instance-price.ts';
import { listOfType } from './texts.ts';
import { type TokenPrice, tokenPriceType } from './token-price.ts';
import { refuse, type ValueType } from './value-type.ts';

/** Prices of machines: at most one for a type in a market. */
export function instancePricesType(): ValueType<readonly InstancePrice[]> {
  return pricesOf(instancePriceType(), ({ type, market }) => `${type}/${market}`);
}

/** Prices of tokens: at most one for a model. */
export function tokenPricesType(): ValueType<readonly TokenPrice[]> {
  return pricesOf(tokenPriceType(), ({ model }) => model);
}

/** A list that has at most one price for a thing: it would not be clear which of two holds. */
function pricesOf<T>(element: ValueType<T>, nameOf: (price: T) => string): ValueType<readonly T[]> {
  const list = listOfType(element, 'list of prices');
  return {
    ...list,
    parse: (texts, around) => {
      const parsed = list.parse(texts, around);
      if (!parsed.ok) return parsed;
      const names = parsed.value.map(nameOf);
      const twice = names.find((name, at) => names.indexOf(name) < at);
      return twice === undefined ? parsed : refuse(`two prices for ${twice}`);
    },
  };
}
