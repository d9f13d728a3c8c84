import { useEffect, useState } from 'preact/hooks';

/** Place in the page: the part of the address behind `#/`, and its parameters. */
export interface Place {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

function placeNow(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    path: path
      .split('/')
      .filter((part) => part !== '')
      .map(decoded),
    query: new URLSearchParams(query),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand; no link of the page has such a part
  }
}

/** Returns the present place, and follows it. */
export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const look = (): void => setPlace(placeNow());
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  return place;
}

/** Returns the address of a place. Parameters without a value are left out. */
export function linkTo(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '');
  const tail = given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
  return `#/${path.map(encodeURIComponent).join('/')}${tail}`;
}
