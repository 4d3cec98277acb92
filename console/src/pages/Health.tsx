export default function Health() {
  return <p>Health</p>;
}
