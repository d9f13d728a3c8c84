import { expect, it } from 'vitest';
import { Markers } from '../../../shared/parsers/markers.ts';

const ALIKE = new Markers(['<|close|>', '<|close|>think', '</']);

it('takes the longest of markers that begin alike', () => {
  expect(ALIKE.match('a<|close|>think', 1, false)).toBe('<|close|>think');
  expect(ALIKE.match('a<|close|>thing', 1, false)).toBe('<|close|>');
});

it('decides between them once no more text can make it the longer one', () => {
  expect(ALIKE.match('a<|close|>thi', 1, false)).toBeUndefined();
  expect(ALIKE.isAt('a<|close|>thi', 1, false)).toBe(true);
  expect(ALIKE.match('a<|close|>thi', 1, true)).toBe('<|close|>');
});

it('finds one that the end of the text may have cut off, unless the text is complete', () => {
  expect(ALIKE.find('a < b <', 0, false)).toBe(6);
  expect(ALIKE.find('a < b <', 0, true)).toBe(7);
  expect(new Markers([]).find('a < b <', 0, false)).toBe(7);
});
