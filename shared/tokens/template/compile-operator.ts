import { ARITHMETIC, add, isEqual, isIn, joinTexts, toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import type { Evaluate } from './scope.ts';
import { TemplateSyntaxError } from './syntax.ts';
import { isTrue } from './values.ts';

/** Compiles a binary operator. @throws TemplateSyntaxError for one that is not supported */
export function compileBinary(operator: string, left: Evaluate, right: Evaluate): Evaluate {
  switch (operator) {
    case 'and':
      return (scope) => {
        const value = left(scope);
        return isTrue(value) ? right(scope) : value;
      };
    case 'or':
      return (scope) => {
        const value = left(scope);
        return isTrue(value) ? value : right(scope);
      };
    case 'in':
      return (scope) => isIn(left(scope), right(scope));
    case 'not in':
      return (scope) => !isIn(left(scope), right(scope));
    case '==':
      return (scope) => isEqual(left(scope), right(scope));
    case '!=':
      return (scope) => !isEqual(left(scope), right(scope));
    case '+':
      return (scope) => add(left(scope), right(scope));
    case '~':
      return (scope) => joinTexts(toText(left(scope)), toText(right(scope)));
    default:
      return compileArithmetic(operator, left, right);
  }
}

function compileArithmetic(operator: string, left: Evaluate, right: Evaluate): Evaluate {
  const calculate = ARITHMETIC[operator];
  if (calculate === undefined) throw new TemplateSyntaxError(`operator ${operator}`);
  return (scope) => calculate(left(scope), right(scope));
}

export function compileUnary(operator: string, argument: Evaluate): Evaluate {
  if (operator === 'not') return (scope) => !isTrue(argument(scope));
  const sign = operator === '-' ? -1 : 1;
  return (scope) => sign * toNumber(argument(scope), 'a sign');
}
