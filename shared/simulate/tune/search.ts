/** Place of a value on each axis. */
export type Point = readonly number[];

/** Costs of a point, by figure; lower is better. */
export type Costs<F extends string> = Readonly<Record<F, number>>;

export interface SearchOptions<F extends string> {
  /** Number of values on each axis, in an order in which neighbours are alike. */
  readonly axes: readonly number[];
  readonly figures: readonly F[];
  /** Points that are evaluated first. */
  readonly grid: readonly Point[];
  /** Most points that are evaluated in all. */
  readonly pointsMax: number;
  evaluate(point: Point): Costs<F> | Promise<Costs<F>>;
}

/** A point with what it costs. */
export interface Evaluated<F extends string> {
  readonly point: Point;
  readonly costs: Costs<F>;
}

/**
 * Looks for the point of least cost of each figure: a coarse grid first, then from the best point of each figure to its
 * best neighbour for as long as one is better. A point is evaluated once, whatever the figure.
 * @returns every evaluated point, in the order of evaluation
 */
export async function searchPoints<F extends string>(options: SearchOptions<F>): Promise<readonly Evaluated<F>[]> {
  const search = new Search(options);
  for (const point of options.grid) await search.visit(point);
  let isBetter = true;
  while (isBetter && !search.isSpent) {
    isBetter = false;
    for (const figure of options.figures) isBetter = (await search.step(figure)) || isBetter;
  }
  return search.evaluated;
}

/** Returns the evaluated points, the best for the figure first. */
export function rankBy<F extends string>(evaluated: readonly Evaluated<F>[], figure: F): readonly Evaluated<F>[] {
  return evaluated.toSorted((one, other) => one.costs[figure] - other.costs[figure]);
}

class Search<F extends string> {
  readonly #options: SearchOptions<F>;
  /** Evaluated points by their name; bounded by `pointsMax`. */
  readonly #known = new Map<string, Evaluated<F>>();

  constructor(options: SearchOptions<F>) {
    this.#options = options;
  }

  get isSpent(): boolean {
    return this.#known.size >= this.#options.pointsMax;
  }

  get evaluated(): readonly Evaluated<F>[] {
    return [...this.#known.values()];
  }

  async visit(point: Point): Promise<void> {
    const name = point.join();
    if (this.isSpent || this.#known.has(name)) return;
    this.#known.set(name, { point, costs: await this.#options.evaluate(point) });
  }

  /** Visits the neighbours of the best point of a figure. Returns whether one of them is better. */
  async step(figure: F): Promise<boolean> {
    const [best] = rankBy(this.evaluated, figure);
    if (best === undefined) return false;
    for (const point of this.#neighbours(best.point)) await this.visit(point);
    const [next] = rankBy(this.evaluated, figure);
    return next !== best;
  }

  #neighbours(point: Point): readonly Point[] {
    return this.#options.axes.flatMap((size, axis) =>
      [point[axis]! - 1, point[axis]! + 1].filter((at) => at >= 0 && at < size).map((at) => point.with(axis, at)),
    );
  }
}
