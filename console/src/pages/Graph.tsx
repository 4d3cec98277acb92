export default function Graph() {
  return <p>Graph</p>;
}
